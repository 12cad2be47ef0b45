"""Back-pressure on the way out: who may write, and who waits for it."""

from __future__ import annotations

import asyncio
from collections import deque

from transports.errors import ChannelError


class WriteGate:
    """Open while the channel takes bytes. Waiters pass one by one, first come first served: were all woken at once, a long
    paste would fill the channel again each time before a waiting ctrl_c had its turn."""

    def __init__(self) -> None:
        self._paused = False
        self._over: ChannelError | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def paused(self) -> bool:
        return self._paused

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._let_pass()

    def finish(self, reason: ChannelError) -> None:
        """Lets nobody pass any more: all who wait, and all who come, get the reason."""
        self._over = reason
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(reason)

    async def wait(self) -> None:
        """Waits until the gate is open and it is our turn.

        Raises:
            ChannelError: the reason that `finish` was given.
        """
        if self._over is not None:
            # Its traceback would grow with each raise.
            raise self._over.with_traceback(None)
        if not self._paused and not self._waiters:
            # Even an open gate lets the others have a turn, or a long paste would hold up the event loop.
            await asyncio.sleep(0)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _let_pass(self) -> None:
        while self._waiters and not self._paused:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                # The next one only after this one has had the chance to fill the channel again.
                asyncio.get_running_loop().call_soon(self._let_pass)
                return

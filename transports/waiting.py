"""Many may wait for one thing: that a channel takes bytes again, or that it is over."""

from __future__ import annotations

import asyncio


class Waiters:
    """Futures that are all woken at once, in the order in which they came."""

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    @property
    def waiting(self) -> bool:
        return bool(self._futures)

    async def wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        try:
            await future
        finally:
            if future in self._futures:
                self._futures.remove(future)

    def wake(self) -> None:
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)

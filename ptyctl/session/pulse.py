"""Something happened: whoever waits looks again. It carries nothing; the state is where it always is."""

from __future__ import annotations

import asyncio


class Pulse:
    """Many may wait; a beat wakes them all. Between looking and waiting there is no await, so no beat is lost."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def beat(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                _wake(future)

    async def wait(self, until: float | None = None) -> None:
        """Returns at the next beat, or when the loop's clock reaches `until`."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append(future)
        timer = None if until is None else loop.call_at(until, _wake, future)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()
            if future in self._waiting:
                self._waiting.remove(future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

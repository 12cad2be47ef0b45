"""Something happened: whoever waits looks again. It carries nothing; the state is where it always is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from .alarm import Alarm

#: Who searches what came looks again at the 64 KiB before it: that costs little beside so much that is new.
GATHER_BYTES = 512 * 1024
#: A flood that has gone on for so many turns is looked at only so often: a look each turn would cost as much as the searching.
FLOOD_TURNS = 8
FLOOD_LOOK_S = 0.001


class Pulse:
    """Many may wait; a beat wakes them all. Between looking and waiting there is no await, so no beat is lost.

    Bytes that were received wake those who `gather` only when `gather_bytes` of them have come, or when two turns of the loop
    brought no more: so their searching stays linear, and a flood costs them next to nothing in between. `settled` says that it
    was the latter, and nothing came since. `watch` is called when those who gather are woken, in that very step, and as soon as
    the channel has nothing more.
    """

    def __init__(self, gather_bytes: int = GATHER_BYTES) -> None:
        self.watch: Callable[[], None] | None = None
        self.settled = False
        self._waiting: dict[asyncio.Future[None], float] = {}
        self._gathering: dict[asyncio.Future[None], float] = {}
        self._gather_bytes = gather_bytes
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._wake_due)
        self._size = 0  # of all that was received
        self._woken_at = 0  # what it was when those who gather were last woken
        self._settling = False
        self._turns = 0  # for how long it has not settled

    def beat(self) -> None:
        """Something other than bytes: nobody waits for more of it."""
        if self._waiting:
            _wake_all(self._waiting)
        if self._gathering or self.watch is not None:
            self._wake_gathering()

    def received(self, nbytes: int) -> None:
        self._size += nbytes
        self.settled = False
        if self._waiting:
            _wake_all(self._waiting)
        if self._gathering or self.watch is not None:
            if self._size - self._woken_at >= self._gather_bytes:
                self._wake_gathering()
            elif not self._settling:
                self._settling = True
                self._loop.call_soon(self._settle, self._size)

    def drained(self) -> None:
        """The channel knows that nothing more is there to be read."""
        if self.watch is not None and not self.settled:
            self.settled = True
            self.watch()

    async def wait(self, until: float | None = None, *, gather: bool = False) -> None:
        """Returns at the next beat, or when the loop's clock reaches `until`."""
        waiting = self._gathering if gather else self._waiting
        future = self._loop.create_future()
        waiting[future] = inf if until is None else until
        if until is not None:
            self._alarm.at(until)
        try:
            await future
        finally:
            waiting.pop(future, None)

    def settles(self) -> bool:
        """Whether it has settled; if that is not known, those who gather are woken once it is."""
        if not self.settled and not self._settling:
            self._settling = True
            self._loop.call_soon(self._settle, self._size)
        return self.settled

    def _settle(self, seen: int, quiet_turns: int = 0) -> None:
        """Once a turn of the loop, and seldom in a flood. Two turns must bring nothing, since a turn runs what is ready before
        what it finds."""
        if self.settled and not self._gathering:
            self._settling, self._turns = False, 0
        elif self._size != seen:
            self._turns += 1
            if self._turns < FLOOD_TURNS:
                self._loop.call_soon(self._settle, self._size)
            else:
                self._loop.call_later(FLOOD_LOOK_S, self._settle, self._size)
        elif quiet_turns == 0:
            self._loop.call_soon(self._settle, seen, 1)
        else:
            self._settling, self._turns = False, 0
            self.settled = True
            self._wake_gathering()

    def _wake_gathering(self) -> None:
        self._woken_at = self._size
        _wake_all(self._gathering)
        if self.watch is not None:
            self.watch()

    def _wake_due(self) -> None:
        now, later = self._loop.time(), inf
        for waiting in (self._waiting, self._gathering):
            for future, until in list(waiting.items()):
                if until <= now:
                    _wake(future)
                    del waiting[future]
                else:
                    later = min(later, until)
        if later < inf:
            self._alarm.at(later)


def _wake_all(waiting: dict[asyncio.Future[None], float]) -> None:
    for future in waiting:
        _wake(future)
    waiting.clear()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

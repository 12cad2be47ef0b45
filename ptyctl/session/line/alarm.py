"""One timer for many times: to set one and take it away again for each costs more than a ring too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Rings at the earliest time that it was set to. No single time is taken back: at a ring nothing may be due any more."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def at(self, when: float) -> None:
        """Rings at that time of the loop's clock, if not before."""
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._rings)

    def stop(self) -> None:
        """It rings no more, until it is set again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rings(self) -> None:
        self._timer = None
        self._ring()

"""One timer shared by many deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class CoalescedTimer:
    """Fires once at the earliest requested time, then is idle until the next request.

    A single request cannot be withdrawn, so the callback must check whether anything is due. A timer for each deadline would
    cost more than an occasional early call.
    """

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def at(self, when: float) -> None:
        """Fire no later than `when` on the loop's clock."""
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._fire)

    def stop(self) -> None:
        """Cancel all requests."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._callback()

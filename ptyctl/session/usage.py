"""Who uses a session: calls keep it from being idle, and those who read are its observers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ptyctl.api.errors import PtyctlError

from .notices import Notices

#: A task that read within this time is an observer.
OBSERVER_S = 60.0


class Usage:
    """`on_idle` is called when nobody has used the session for `idle_timeout_s`; 0 is never. An error of a call tells its task
    the notices that it was not told yet: who took its lock."""

    def __init__(self, idle_timeout_s: float, on_idle: Callable[[], None], notices: Notices) -> None:
        self.last_activity_at = int(time.time() * 1000)
        self._idle_timeout_s = idle_timeout_s
        self._on_idle = on_idle
        self._notices = notices
        self._readers: dict[str, float] = {}
        self._reading: Counter[str] = Counter()
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    @contextmanager
    def in_use(self, task_id: str | None, *, reading: bool = False) -> Iterator[None]:
        """A call uses the session: as long as one does, it is not idle."""
        self.last_activity_at = int(time.time() * 1000)
        self._users += 1
        self._stop_timer()
        if reading:
            self._reading[task_id or ""] += 1
        try:
            yield
        except PtyctlError as error:
            if notices := self._notices.take(task_id):
                error.details["notices"] = notices
            raise
        finally:
            if reading:
                self._reading[task_id or ""] -= 1
                self._readers[task_id or ""] = asyncio.get_running_loop().time()
            self._users -= 1
            self.watch()

    def watch(self) -> None:
        """Starts anew to count the time until an unused session is idle."""
        self._stop_timer()
        if self._idle_timeout_s and not self._users and not self._over:
            self._timer = asyncio.get_running_loop().call_later(self._idle_timeout_s, self._on_idle)

    def end(self) -> None:
        """The session is closed: nothing is counted any more."""
        self._over = True
        self._stop_timer()

    def observers(self, holder: str | None) -> list[str]:
        """Who else than the lock's holder reads now, or has within the last minute; all without a task_id are one, named ""."""
        now = asyncio.get_running_loop().time()
        self._readers = {task: at for task, at in self._readers.items() if now - at < OBSERVER_S}
        return [task for task in {**self._readers, **+self._reading} if task != holder]

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""Use of a session: detects idleness, and tracks the tasks that read."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ptyctl.api.errors import PtyctlError
from ptyctl.api.session import LimitUse
from ptyctl.core.lease import Owner
from ptyctl.core.limits import Limit, UseCounter, count_all

from .clients import current_client, lock_owner
from .io.errors import from_os_error

#: A task is an observer while it reads, and for this time after.
OBSERVER_S = 60.0


class Usage:
    """The calls in progress and the last activity.

    Attributes:
        last_activity_at: start of the last call (epoch ms).
    """

    def __init__(
        self,
        idle_timeout_s: float,
        on_idle: Callable[[], None],
        take_notices: Callable[[str | None], list[str] | None],
        last_output: Callable[[], float | None],
        limits: Mapping[str, Limit],
    ) -> None:
        """Call `on_idle` after `idle_timeout_s` without a call and without output of a run; 0 disables this.

        The error of a failed call carries an alarm and the task's unread notices, for example who took its lock.

        Args:
            take_notices: returns them.
            last_output: returns when a run in progress has last printed (loop's clock); None without a run.
        """
        self.last_activity_at = int(time.time() * 1000)
        self._idle_timeout_s = idle_timeout_s
        self._on_idle = on_idle
        self._last_output = last_output
        self._take_notices = take_notices
        self._last_reads: dict[Owner, float] = {}
        self._reading: Counter[Owner] = Counter()
        self._limits = limits
        self._calls = UseCounter(limits["max_session_calls"])
        self._watches = UseCounter(limits["max_session_watches"])
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def restore(self, last_activity_at: int) -> None:
        """Continue from the last activity in an earlier process."""
        self.last_activity_at = last_activity_at

    @contextmanager
    def in_use(
        self, task_id: str | None, *, reading: bool = False, watching: bool = False, limited: bool = True
    ) -> Iterator[None]:
        """Count a call. The session is not idle while a call is in progress.

        Args:
            limited: false for a call that does not wait, and must not fail because others do.

        Raises:
            PtyctlError: LIMIT_EXCEEDED for too many calls or watches; for an OSError of the call, as `from_os_error`.
        """
        self.last_activity_at = int(time.time() * 1000)
        counters, owner = self._counters(watching) if limited else [], lock_owner(task_id)
        try:
            count_all(counters)
            self._stop_timer()
            try:
                if reading:
                    self._reading[owner] += 1
                yield
            finally:
                for counter in counters:
                    counter.decrease()
                if reading:
                    self._reading_ended(owner)
        except OSError as error:
            raise self._with_notices(from_os_error(error), task_id) from error
        except PtyctlError as error:
            self._with_notices(error, task_id)
            raise
        finally:
            self.watch()

    def _with_notices(self, error: PtyctlError, task_id: str | None) -> PtyctlError:
        if notices := self._take_notices(task_id):
            error.details["notices"] = notices
        return error

    def _counters(self, watching: bool) -> list[UseCounter]:
        """Return the counters of the session and of the client for a watch, or for another call."""
        counter, name = (self._watches, "max_client_watches") if watching else (self._calls, "max_client_calls")
        client = current_client()
        return [counter] if client is None else [client.counter(self._limits[name]), counter]

    def _reading_ended(self, owner: Owner) -> None:
        """Record that a task has read."""
        self._reading[owner] -= 1
        if not self._reading[owner]:
            del self._reading[owner]
        self._last_reads.pop(owner, None)
        self._last_reads[owner] = asyncio.get_running_loop().time()
        if len(self._last_reads) > self._limits["max_session_observers"].maximum:
            del self._last_reads[next(iter(self._last_reads))]

    def limits_in_use(self, queued: int) -> list[LimitUse]:
        """Return the session's limits with their use. `queued` is the length of the lock's queue."""
        self._forget_old_reads()
        return [
            self._calls.use(),
            self._watches.use(),
            self._limits["max_session_observers"].use(len(self._last_reads)),
            self._limits["max_session_queue"].use(queued),
        ]

    def watch(self) -> None:
        """Restart the idle timeout if no call is in progress."""
        self._stop_timer()
        if self._idle_timeout_s and not (self._calls.in_use or self._watches.in_use) and not self._ended:
            self._timer = asyncio.get_running_loop().call_later(self._idle_timeout_s, self._timed_out)

    def _timed_out(self) -> None:
        """End the session, unless a run has printed within the timeout."""
        loop, printed = asyncio.get_running_loop(), self._last_output()
        if printed is None or printed + self._idle_timeout_s <= loop.time():
            self._on_idle()
        else:
            self._timer = loop.call_at(printed + self._idle_timeout_s, self._timed_out)

    def end(self) -> None:
        """Stop the idle timeout: the session is closed."""
        self._ended = True
        self._stop_timer()

    def observers(self, holder: Owner | None) -> list[Owner]:
        """Return the tasks that read now or within the last `OBSERVER_S` seconds, without the lock's holder.

        All calls of a principal without a task_id count as one task.
        """
        self._forget_old_reads()
        return [owner for owner in {**self._last_reads, **+self._reading} if owner != holder]

    def _forget_old_reads(self) -> None:
        """Forget reads that ended more than `OBSERVER_S` seconds ago; they are in the order of their ends."""
        latest = asyncio.get_running_loop().time() - OBSERVER_S
        while self._last_reads and next(iter(self._last_reads.values())) <= latest:
            del self._last_reads[next(iter(self._last_reads))]

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

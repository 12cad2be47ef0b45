"""Waiting on the output stream for a pattern, a pause, an amount of output, the end or a deadline. Reads and runs share it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ptyctl.api.controller import Progress
from ptyctl.core.search import MatchRange, Search

from .output_stream import OutputStream
from .pattern_search import find_next_received

#: Interval of progress reports to a waiting caller (seconds).
PROGRESS_S = 1.0

WaitEnd = Literal["matched", "idle", "timeout", "eof", "full", "stopped"]


@dataclass(frozen=True, slots=True)
class WaitConditions:
    """The conditions that end a wait; the first to be true wins.

    Attributes:
        deadline: on the loop's clock.
        pattern: a compiled RE2 pattern.
        idle_s: seconds without output.
        full_at: a spool offset.
        any_text: one byte of text is enough.
        idle_after_output: silence counts only once there is output.
        search_begin: returns the spool offset at which the search begins; None while more output must show it.
    """

    deadline: float
    pattern: Any = None
    idle_s: float | None = None
    full_at: int | None = None
    any_text: bool = False
    idle_after_output: bool = False
    search_begin: Callable[[], int | None] | None = None


class WaitProgress:
    """Reports to a caller once a second how many bytes arrived since its wait began, and how many seconds have passed."""

    def __init__(self, stream: OutputStream, progress: Progress | None) -> None:
        self._stream = stream
        self._progress = progress
        self._raw_at_start = stream.raw_size
        self._started = self._reported = asyncio.get_running_loop().time()

    def due(self) -> float | None:
        """Return when the next report is due on the loop's clock; None without a callback."""
        return None if self._progress is None else self._reported + PROGRESS_S

    def report(self) -> None:
        """Report if a report is due."""
        now = asyncio.get_running_loop().time()
        if self._progress is not None and now >= self._reported + PROGRESS_S:
            self._reported = now
            self._progress(self._stream.raw_size - self._raw_at_start, now - self._started)


class OutputWait:
    """One wait from a spool cursor. The lines of prompt marks are not searched.

    Attributes:
        span: the match, once the wait has ended with "matched".
    """

    def __init__(self, stream: OutputStream, cursor: int, conditions: WaitConditions) -> None:
        self.span: MatchRange | None = None
        self._stream, self._prompts = stream, stream.prompts
        self._cursor = cursor
        self._conditions = conditions
        self._search: Search | None = None
        self._started = asyncio.get_running_loop().time()

    async def run(self, progress: WaitProgress) -> WaitEnd:
        """Wait until a condition is true; output that is already there counts. Raises as `check`."""
        while (end := await self.check()) is None:
            await self._pause(progress.due())
            progress.report()
        return end

    async def check(self) -> WaitEnd | None:
        """Return the condition that is met, or None. A match takes precedence over other conditions.

        Raises:
            PtyctlError: LIMIT_EXCEEDED if the search takes too long.
        """
        end = self._other_condition()
        full_at = self._conditions.full_at
        search = self._search or self._begin_search()
        if search is not None and search.scanned < self._stream.spool_end:
            stream, deadline = self._stream, self._conditions.deadline
            self.span = await find_next_received(stream, search, stream.searchable_window, deadline)
            if self.span is not None and (full_at is None or self.span.end <= full_at):
                return "matched"
        return end

    def next_check(self) -> float:
        """Return when to check again if no output arrives."""
        if self._conditions.idle_s is None:
            return self._conditions.deadline
        if self._conditions.idle_after_output and self._stream.spool_end == self._cursor:
            return self._conditions.deadline  # output wakes the waiter
        return min(self._conditions.deadline, self._quiet_since() + self._conditions.idle_s)

    def _begin_search(self) -> Search | None:
        """Return the search; None without a pattern, and while it is not known where it begins."""
        conditions = self._conditions
        if conditions.pattern is None:
            return None
        begin = self._cursor if conditions.search_begin is None else conditions.search_begin()
        if begin is None:
            return None
        self._search = Search(conditions.pattern, begin, self._prompts.within)
        return self._search

    async def _pause(self, until: float | None = None) -> None:
        due = self.next_check()
        coalesce = not self._conditions.any_text
        await self._stream.wait(due if until is None else min(due, until), coalesce=coalesce)

    def _other_condition(self) -> WaitEnd | None:
        conditions = self._conditions
        if conditions.full_at is not None and self._stream.spool_end >= conditions.full_at:
            return "full"
        if conditions.any_text and self._prompts.shown_size(self._cursor, self._stream.spool_end):
            return "full"
        if self._stream.ended is not None:
            return "eof"
        now = asyncio.get_running_loop().time()
        may_be_idle = not conditions.idle_after_output or self._stream.spool_end > self._cursor
        if conditions.idle_s is not None and may_be_idle and now >= self._quiet_since() + conditions.idle_s:
            return "idle"
        return "timeout" if now >= conditions.deadline else None

    def _quiet_since(self) -> float:
        return max(self._started, self._stream.last_data)

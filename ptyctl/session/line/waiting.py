"""Waiting on the stream for a pattern, for quiet, for enough, for the end or for a time: reads and runs share it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from ptyctl.api.controller import Progress
from ptyctl.core.search import MatchRange, Search

from .stream import Stream

#: How often a waiting caller hears of progress.
PROGRESS_S = 1.0

Why = Literal["matched", "idle", "timeout", "eof", "full", "stopped"]


@dataclass(frozen=True, slots=True)
class Until:
    """What ends a wait. `deadline` is on the loop's clock; `full_at` is a spool offset, `idle_s` seconds without a byte;
    with `any_text` a byte is enough."""

    deadline: float
    pattern: Any = None
    idle_s: float | None = None
    full_at: int | None = None
    any_text: bool = False


class Reporter:
    """Tells a caller once a second that its wait goes on: bytes received since it began, and seconds."""

    def __init__(self, stream: Stream, progress: Progress | None) -> None:
        self._stream = stream
        self._progress = progress
        self._raw = stream.normaliser.raw
        self._begun = asyncio.get_running_loop().time()
        self._told = self._begun

    def due(self) -> float | None:
        """When to tell next, on the loop's clock; None when nobody listens."""
        return None if self._progress is None else self._told + PROGRESS_S

    def report(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._progress is not None and now >= self._told + PROGRESS_S:
            self._told = now
            self._progress(self._stream.normaliser.raw - self._raw, now - self._begun)


class Wait:
    """One wait from a cursor; prompt marks' lines are not seen. `span` is the match, once `run` has returned "matched"."""

    def __init__(self, stream: Stream, cursor: int, until: Until) -> None:
        self.span: MatchRange | None = None
        self._stream = stream
        self._cursor = cursor
        self._until = until
        self._search = Search(until.pattern, cursor, stream.prompts.within) if until.pattern is not None else None
        self._begun = asyncio.get_running_loop().time()

    async def run(self, reporter: Reporter) -> Why:
        """Returns at the first thing that ends the wait; what is there already counts."""
        while (why := self.look()) is None:
            await self.pause(reporter.due())
            reporter.report()
        return why

    async def pause(self, until: float | None = None) -> None:
        """Until there may be something to look at, at the latest at `until`."""
        due = self.next_look()
        await self._stream.pulse.wait(due if until is None else min(due, until), gather=not self._until.any_text)

    def look(self) -> Why | None:
        """Why the wait is over now, or None. A match comes before all else that happened with it."""
        why = self._over()
        if self._search is not None and self._search.scanned < self._stream.end:
            self.span = self._search.search(self._stream.searchable())
            if self.span is not None and (self._until.full_at is None or self.span.end <= self._until.full_at):
                return "matched"
        return why

    def _over(self) -> Why | None:
        if self._until.full_at is not None and self._stream.end >= self._until.full_at:
            return "full"
        if self._until.any_text and self._stream.prompts.shown_size(self._cursor, self._stream.end):
            return "full"
        if self._stream.ended is not None:
            return "eof"
        now = asyncio.get_running_loop().time()
        if self._until.idle_s is not None and now >= self._quiet_since() + self._until.idle_s:
            return "idle"
        return "timeout" if now >= self._until.deadline else None

    def next_look(self) -> float:
        """When to look again, should nothing come in before."""
        if self._until.idle_s is None:
            return self._until.deadline
        return min(self._until.deadline, self._quiet_since() + self._until.idle_s)

    def _quiet_since(self) -> float:
        return max(self._begun, self._stream.last_data)

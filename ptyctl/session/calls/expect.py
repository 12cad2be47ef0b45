"""Waits of the pty_* surface: for text, a pattern, a prompt or the end, from a cursor, also from long ago."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ptyctl.api.errors import PtyctlError, invalid
from ptyctl.api.pty import MatchSpan, PromptExtra, PtyReply
from ptyctl.core.marks import read_sentinel
from ptyctl.core.renderer import render_line
from ptyctl.core.search import MATCH_LIMIT_BYTES, LiteralPattern, Search, compile_pattern
from ptyctl.core.search import MatchRange as Found
from ptyctl.core.spool import UTF8_MAX_BYTES, SpoolWindow
from ptyctl.session.session import Session

#: History older than the window is searched in pieces of this size, with a turn for others between them.
_PIECE_BYTES = 1 << 20
#: A device's prompt is not longer.
_LINE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is waited for: a compiled pattern, or the prompt, or the end of the stream."""

    kind: str
    pattern: Any = None


def wanted(kind: str, text: str | None, field: str) -> Wanted:
    """Raises PtyctlError INVALID_ARGUMENT for a pattern that RE2 refuses."""
    if kind == "substring":
        return Wanted(kind, LiteralPattern(text or ""))
    return Wanted(kind, compile_pattern(text or "", field) if kind == "regex" else None)


class Expecting:
    """One wait from a cursor. With `found` it is looked at each byte's arrival, and `found` is called with the match in the
    same step, before anybody else may write; without, what comes in is gathered, so that the searching stays linear. `over`
    says that what is waited for cannot come any more."""

    def __init__(
        self,
        session: Session,
        want: Wanted,
        cursor: int,
        found: Callable[[Found], None] | None = None,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        if cursor > session.stream.spool_end:
            raise past_the_end(cursor, session.stream.spool_end)
        self._session = session
        self._stream = session.stream
        self._want = want
        self._cursor = cursor
        self._found = found
        self._over = over
        self._search = Search(want.pattern, cursor) if want.pattern is not None else None
        self._span: Found | None = None

    async def run(self, timeout_s: float) -> Found | None:
        """The match, or None at the timeout or the end of the stream."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        if self._search is not None:
            self._hit(await self._in_the_past(self._search))
        if self._found is None:
            await self._wait(deadline)
            return self._span
        unsubscribe = self._stream.subscribe_output(lambda raw, data: self._look())
        try:
            await self._wait(deadline)
        finally:
            unsubscribe()
        return self._span

    async def _wait(self, deadline: float) -> None:
        stream = self._stream
        while self._span is None:
            over = stream.ended is not None or self._over() or asyncio.get_running_loop().time() >= deadline
            self._look()
            if over or self._span is not None:
                return
            await stream.signal.wait(deadline, coalesce=self._search is not None)

    def _look(self) -> None:
        if self._span is None:
            self._hit(self._now())

    def _now(self) -> Found | None:
        if self._search is not None:
            return (
                self._search.search(self._stream.searchable_window()) if self._search.scanned < self._stream.spool_end else None
            )
        if self._want.kind == "eof":
            return Found(self._stream.spool_end, self._stream.spool_end) if self._stream.ended is not None else None
        line = self._stream.prompts.first_from(self._cursor)
        if line is not None:
            return Found(*line)
        return _device_prompt(self._session, self._cursor) or _learned_prompt(self._session, self._cursor)

    def _hit(self, span: Found | None) -> None:
        if span is not None:
            self._span = span
            if self._found is not None:
                self._found(span)

    async def _in_the_past(self, search: Search) -> Found | None:
        """The first match in what the window does not hold any more."""
        stream = self._stream
        while search.scanned < stream.window.start:
            begin = max(self._cursor, search.scanned - MATCH_LIMIT_BYTES - UTF8_MAX_BYTES)
            end = min(search.scanned + _PIECE_BYTES, stream.spool_end)
            piece = SpoolWindow(end - begin, begin)
            piece.append(stream.read(begin, end))
            span = search.search(piece)
            if span is not None:
                return span
            await asyncio.sleep(0)
        return None


def _device_prompt(session: Session, cursor: int) -> Found | None:
    """The first prompt of a device that ended a command at or behind a cursor: the last line of a block."""
    first = None
    for block in reversed(session.blocks.all()):
        if block.spool_end is not None and block.spool_end <= cursor:
            break
        if block.device and block.spool_end is not None:
            tail = session.stream.read(max(block.spool_begin, block.spool_end - _LINE_BYTES), block.spool_end)
            line = tail.rpartition(b"\n")[2]
            begin = block.spool_end - len(line)
            if begin >= cursor and session.selector.prompt.match(render_line(line), session.profile()) is not None:
                first = Found(begin, block.spool_end)
    return first


def _learned_prompt(session: Session, cursor: int) -> Found | None:
    """The prompt at the end of the spool, where no mark tells it (a device): its place, if it begins at or behind a cursor.

    Only while nothing runs: what ended the last run was the prompt.
    """
    line = session.stream.last_line()
    begin = session.stream.spool_end - len(line)
    if session.runs.mode != "idle" or session.selector.has_marks or begin < cursor:
        return None
    is_prompt = session.selector.prompt.match(render_line(line), session.profile()) is not None
    return Found(begin, session.stream.spool_end) if is_prompt else None


def past_the_end(cursor: int, end: int) -> PtyctlError:
    return invalid(f"from_cursor {cursor} lies past the end, {end}; is it of another terminal?", field="from_cursor")


def matched(session: Session, span: Found, want: Wanted) -> PtyReply:
    """The reply for a match."""
    text = session.stream.read(span.start, span.end)
    return PtyReply(
        matched=True,
        match_text=text.decode("utf-8", "replace"),
        match_cursor=span.start,
        match_span=MatchSpan(start=span.start, end=span.end),
        resume_cursor=span.end,
        extra=_extra(session, span, text) if want.kind == "prompt" else None,
    )


def _extra(session: Session, span: Found, line: bytes) -> PromptExtra | None:
    """What the shell said with its prompt; without marks the prompt itself says nothing, but the run right before it may."""
    if not line.startswith(b"__FWS_PROMPT__ "):
        last = session.blocks.latest()
        if last is None or last.exit_code is None or last.spool_end != span.start:
            return None
        return PromptExtra(ts=last.ts_end, exit_code=last.exit_code)
    mark = read_sentinel(line)
    return PromptExtra(cwd=os.fsdecode(mark.cwd or b""), ts=mark.ts, exit_code=mark.status)


def timed_out(session: Session, what: str) -> PtyReply:
    """The reply when it did not come; the cursor is the spool's size, so that nothing is seen twice."""
    ended = session.stream.ended
    if ended is not None:
        return PtyReply(
            ok=False, matched=False, error="eof", message=f"{what} did not come before the end: {ended.message}",
            resume_cursor=session.stream.spool_end,
        )  # fmt: skip
    return PtyReply(
        ok=False, matched=False, error="timeout", resume_cursor=session.stream.spool_end,
        message=f"{what} did not come in time; to catch one that may straddle the end, ask again with the same from_cursor",
    )  # fmt: skip

"""Waits of the pty_* tools: for text, a pattern, a prompt or the end of the stream, from any cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.pty import MatchSpan, PromptExtra, PtyReply
from ptyctl.core.marks import SENTINEL, read_sentinel
from ptyctl.core.renderer import render_line
from ptyctl.core.search import LOOP_STEPS, MATCH_LIMIT_BYTES, MatchRange, Search, compile_pattern, literal_pattern
from ptyctl.core.spool import UTF8_MAX_BYTES, SpoolWindow
from ptyctl.session.io.pattern_search import find_next, find_next_received
from ptyctl.session.io.time_slice import TimeSlice
from ptyctl.session.session import Session

from .cursor import check_from_cursor

#: Text that is no longer in the window is searched in pieces of this size, yielding to the event loop between them.
_PIECE_BYTES = 1 << 20
#: Longest prompt of a device.
_DEVICE_PROMPT_BYTES = 1024
#: Rows of blocks that are examined at once, in about 3 ms; more of them in time slices.
_LOOP_ROWS = 64


@dataclass(frozen=True, slots=True)
class Expectation:
    """The condition of an expect call: a compiled pattern, the prompt, or the end of the stream."""

    kind: str
    pattern: Any = None


def expectation(kind: str, text: str | None, field: str) -> Expectation:
    """Return the expectation of a request.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a pattern that RE2 rejects.
    """
    if kind == "substring":
        return Expectation(kind, literal_pattern(text or ""))
    return Expectation(kind, compile_pattern(text or "", field) if kind == "regex" else None)


class ExpectWait:
    """One wait from a cursor.

    With `on_match`, each received chunk is searched at once and `on_match` is called synchronously, before any other writer can
    write. Without it, chunks are coalesced, so that searching stays linear.
    """

    def __init__(
        self,
        session: Session,
        expected: Expectation,
        cursor: int,
        on_match: Callable[[MatchRange], None] | None = None,
        impossible: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the wait. `impossible` returns whether a match can no longer occur."""
        check_from_cursor(session.stream, cursor)
        self._session = session
        self._stream = session.stream
        self._prompts = session.stream.prompts
        self._expected = expected
        self._cursor = cursor
        self._on_match = on_match
        self._impossible = impossible
        self._search = Search(expected.pattern, cursor) if expected.pattern is not None else None
        self._device_prompts = DevicePrompts(session, cursor) if expected.kind == "prompt" else None
        self._match: MatchRange | None = None
        self._searching = False  # in a thread or in time slices

    async def run(self, timeout_s: float) -> MatchRange | None:
        """Return the match, or None at the timeout or the end of the stream.

        Raises:
            PtyctlError: LIMIT_EXCEEDED if the search takes too long.
        """
        stream, loop = self._stream, asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        if self._search is not None:
            self._matched(await self._search_before_window(self._search, deadline))
        unsubscribe = None if self._on_match is None else stream.subscribe_output(lambda raw, data: self._check())
        try:
            while self._match is None:
                over = stream.ended is not None or self._impossible() or loop.time() >= deadline
                if self._is_long_search():
                    self._matched(await self._search_long(deadline))
                self._check()
                if over or self._match is not None:
                    break
                if self._impossible():  # since a long search
                    continue
                await stream.wait(deadline, coalesce=self._search is not None)
        finally:
            if unsubscribe is not None:
                unsubscribe()
        return self._match

    def _check(self) -> None:
        if self._match is None and not self._searching and not self._is_long_search():
            self._matched(self._find())

    def _is_long_search(self) -> bool:
        """Return whether the next search would stall the event loop. The answer to its match may follow later output."""
        if self._device_prompts is not None:
            return self._device_prompts.is_long()
        return self._search is not None and self._search.steps(self._stream.window) > LOOP_STEPS

    async def _search_long(self, deadline: float) -> MatchRange | None:
        self._searching = True
        try:
            if self._device_prompts is not None:
                return self._marked_prompt() or await self._device_prompts.find_in_slices()
            assert self._search is not None
            return await find_next_received(self._stream, self._search, self._stream.searchable_window, deadline)
        finally:
            self._searching = False

    def _find(self) -> MatchRange | None:
        stream = self._stream
        if self._search is not None:
            return self._search.search(stream.searchable_window()) if self._search.scanned < stream.spool_end else None
        if self._expected.kind == "eof":
            return MatchRange(stream.spool_end, stream.spool_end) if stream.ended is not None else None
        assert self._device_prompts is not None
        return self._marked_prompt() or self._device_prompts.find() or _learned_prompt(self._session, self._cursor)

    def _marked_prompt(self) -> MatchRange | None:
        line = self._prompts.first_from(self._cursor)
        return None if line is None else MatchRange(*line)

    def _matched(self, match: MatchRange | None) -> None:
        if match is not None:
            self._match = match
            if self._on_match is not None:
                self._on_match(match)

    async def _search_before_window(self, search: Search, deadline: float) -> MatchRange | None:
        """Return the first match in text that the window no longer holds."""
        stream = self._stream

        def piece() -> SpoolWindow:
            begin = max(self._cursor, search.scanned - MATCH_LIMIT_BYTES - UTF8_MAX_BYTES)
            end = min(search.scanned + _PIECE_BYTES, stream.spool_end)
            window = SpoolWindow(end - begin, begin)
            window.append(stream.read(begin, end))
            return window

        while search.scanned < stream.window.start:
            match = await find_next(stream.search_turn, search, piece, deadline)
            if match is not None:
                return match
            await asyncio.sleep(0)
        return None


class DevicePrompts:
    """Finds the first device prompt at or after a cursor that ended a command: the last line of a block.

    A block without one is examined again only after the session's prompt has changed.
    """

    def __init__(self, session: Session, cursor: int) -> None:
        self._session = session
        self._cursor = cursor
        self._examined = 0
        self._prompt: object = None
        self._found: MatchRange | None = None

    def is_long(self) -> bool:
        """Return whether the number of blocks to be examined after the cursor would stall the event loop."""
        blocks = self._session.blocks
        at = blocks.rows - _LOOP_ROWS
        if at <= self._first_row():
            return False
        block = blocks.of_row(at)
        return block is None or block.spool_end is None or block.spool_end > self._cursor

    def find(self) -> MatchRange | None:
        """Return the prompt's range, or None."""
        for _ in self._search():
            pass
        return self._found

    async def find_in_slices(self) -> MatchRange | None:
        """Return the prompt's range, or None. Yields to the event loop, and then wakes waiters if output was received."""
        stream, time_slice = self._session.stream, TimeSlice()
        before = stream.spool_end, stream.ended
        for _ in self._search():
            await time_slice.yield_if_over()
        if (stream.spool_end, stream.ended) != before:
            asyncio.get_running_loop().call_soon(stream.notify_waiters)
        return self._found

    def _search(self) -> Iterator[None]:
        """Examine blocks, one in each step: the newest first, back to the cursor, and then from there for their last line."""
        session, blocks = self._session, self._session.blocks
        first, prompt, rows = self._first_row(), self._current_prompt(), blocks.rows
        ended: list[tuple[int, int]] = []
        for block in blocks.changed_since(first):
            if block.spool_end is not None:
                if block.spool_end <= self._cursor:
                    break
                if block.device:
                    ended.append((block.spool_begin, block.spool_end))
            yield
        for begin, end in reversed(ended):
            line = session.stream.read(max(begin, end - _DEVICE_PROMPT_BYTES), end).rpartition(b"\n")[2]
            if end - len(line) >= self._cursor and _is_prompt(session, line):
                self._found = MatchRange(end - len(line), end)
                return
            yield
        self._examined, self._prompt = rows, prompt

    def _first_row(self) -> int:
        return self._examined if self._prompt == self._current_prompt() else 0

    def _current_prompt(self) -> object:
        """Return the state by which prompts are recognised: platform, patterns and learned prompt."""
        session = self._session
        return session.platform, session.expect, session.prompt.learned


def _learned_prompt(session: Session, cursor: int) -> MatchRange | None:
    """Return the prompt at the end of the spool, if no marks report prompts and it begins at or after a cursor.

    Only while no run is active: the prompt ended the last run.
    """
    line = session.stream.last_line()
    begin = session.stream.spool_end - len(line)
    if session.runs.mode != "idle" or session.selector.has_marks or begin < cursor:
        return None
    return MatchRange(begin, session.stream.spool_end) if _is_prompt(session, line) else None


def _is_prompt(session: Session, line: bytes) -> bool:
    return session.prompt.match(render_line(line), session.profile()) is not None


def wait_seconds(timeout_ms: int) -> float:
    """Convert the timeout of a call to seconds, at most MAX_WAIT_MS."""
    return min(timeout_ms, MAX_WAIT_MS) / 1000


def match_reply(session: Session, match: MatchRange, expected: Expectation) -> PtyReply:
    """Return the reply for a match."""
    text = session.stream.read(match.start, match.end)
    return PtyReply(
        matched=True,
        match_text=text.decode("utf-8", "replace"),
        match_cursor=match.start,
        match_span=MatchSpan(start=match.start, end=match.end),
        resume_cursor=match.end,
        extra=_prompt_extra(session, match, text) if expected.kind == "prompt" else None,
    )


def _prompt_extra(session: Session, match: MatchRange, line: bytes) -> PromptExtra | None:
    """Return the values of the prompt's mark; without a mark, those of the run directly before the prompt."""
    if not line.startswith(SENTINEL + b" "):
        last = session.blocks.latest()
        if last is None or last.exit_code is None or last.spool_end != match.start:
            return None
        return PromptExtra(ts=last.ts_end, exit_code=last.exit_code)
    mark = read_sentinel(line)
    return PromptExtra(cwd=mark.directory or "", ts=mark.ts, exit_code=mark.status)


def timeout_reply(session: Session, what: str) -> PtyReply:
    """Return the reply without a match. The cursor is the spool's end, so that no output is reported twice."""
    reply = PtyReply(ok=False, matched=False, resume_cursor=session.stream.spool_end)
    ended = session.stream.ended
    if ended is not None:
        reply.error, reply.message = "eof", f"{what} was not found before the end: {ended.message}"
    else:
        reply.error, reply.message = "timeout", f"{what} was not found in time"
        reply.hint = "to find a match that begins before resume_cursor, wait again with the same from_cursor"
    return reply

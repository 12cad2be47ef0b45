"""A part of a run's output for an exec reply: the text after a cursor, and the lines that match a pattern.

Both are taken from the spool, piece by piece, so that the size of the output does not matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ptyctl.api.exec import ExecRequest
from ptyctl.core.renderer import render_line
from ptyctl.core.search import line_pattern
from ptyctl.core.spool import whole_characters, whole_line_ends
from ptyctl.session.io.output_stream import LINE_BYTES, OutputStream
from ptyctl.session.io.pattern_search import line_steps, search_with
from ptyctl.session.runs.run import Run
from ptyctl.session.runs.run_output import omission_note

from .cursor import parse_cursor

#: The spool is searched in pieces of about this size, yielding to the event loop between them.
_PIECE_BYTES = 1 << 20
_SEPARATOR = "--\n"
#: Number of matching lines after which the search yields to the event loop.
_YIELD_LINES = 128
#: Size of context after which the search yields to the event loop (bytes).
_YIELD_BYTES = 1024 * 1024
#: The context of a line is first searched for in this many bytes.
_CONTEXT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class SelectedOutput:
    """The text; how many bytes it lacks; where it ends in the spool; and how many lines match, with `grep`."""

    text: str
    omitted_bytes: int
    end: int
    grep_count: int | None = None


async def select_output(run: Run, stream: OutputStream, request: ExecRequest) -> SelectedOutput:
    """Return the part of the output that the request's `from_cursor` and `grep` select.

    Raises:
        PtyctlError: INVALID_ARGUMENT for the cursor or the pattern.
    """
    begin, end = _bounds(run, stream)
    following = end if run.result is None else run.result.spool_end
    if request.from_cursor is not None:
        begin = max(begin, parse_cursor(request.from_cursor, stream.spool_end, "from_cursor"))
        end = max(begin, end)
    if request.grep is None:
        text, omitted = _shortened(stream, begin, end, request.max_output_bytes)
        return SelectedOutput(text, omitted, max(following, end))
    found = MatchingLines(stream, begin, end, request.max_output_bytes)
    await found.search(request.grep)
    text = await found.text(request.grep_context)
    return SelectedOutput(text, found.omitted_bytes, max(following, end), found.count)


def _bounds(run: Run, stream: OutputStream) -> tuple[int, int]:
    """Return the range of the output in the spool, without a trailing prompt or incomplete character."""
    begin = stream.spool_end if run.spool_begin is None else min(run.spool_begin, stream.spool_end)
    if run.result is None:
        tail = stream.read(max(begin, stream.spool_end - 4), stream.spool_end)
        return begin, stream.spool_end - len(tail) + whole_characters(tail)
    end = max(begin, min(run.result.spool_end, run.result.output_end, stream.spool_end))
    last = stream.read(max(begin, end - LINE_BYTES), end).rpartition(b"\n")[2]
    if run.result.prompt_after and render_line(last).strip() == run.result.prompt_after.strip():
        end -= len(last)
    return begin, end


def _shortened(stream: OutputStream, begin: int, end: int, limit: int) -> tuple[str, int]:
    """Return the text and the number of omitted bytes. Of text above `limit`, only whole lines of both ends are kept."""
    if end - begin <= limit:
        return stream.read(begin, end).decode("utf-8", "replace"), 0
    head, tail = whole_line_ends(stream.read(begin, begin + limit // 2), stream.read(end - limit // 2, end))
    omitted = end - begin - len(head) - len(tail)
    gap = omission_note(omitted, begin + len(head))
    return head.decode("utf-8", "replace") + gap + tail.decode("utf-8", "replace"), omitted


class MatchingLines:
    """The lines between two spool offsets that match a pattern.

    Attributes:
        count: number of matching lines.
        omitted_bytes: size of the matching lines that exceed the limit.
    """

    def __init__(self, stream: OutputStream, begin: int, end: int, limit: int) -> None:
        self.count = 0
        self.omitted_bytes = 0
        self._stream = stream
        self._begin = begin
        self._end = end
        self._limit = limit
        self._size = 0
        self._lines: list[tuple[int, int]] = []

    async def search(self, grep: str) -> None:
        """Find the matching lines. A line longer than a piece is searched in parts."""
        pattern = line_pattern(grep, "grep")
        at = self._begin
        while at < self._end:
            piece = self._stream.read(at, min(at + _PIECE_BYTES, self._end))
            if not piece:  # not persisted
                break
            if at + len(piece) < self._end:
                piece = piece[: piece.rfind(b"\n") + 1] or piece
            steps, search = line_steps(len(piece), piece.count(b"\n") + 1), partial(_matching_lines, piece)
            found = await search_with(self._stream.search_turn, pattern, len(piece), search, more_steps=steps)
            for number, (first, last) in enumerate(found):
                if number % _YIELD_LINES == 0:
                    await asyncio.sleep(0)
                self._add(at + first, at + last)
            at += len(piece)
            await asyncio.sleep(0)

    def _add(self, begin: int, end: int) -> None:
        self.count += 1
        if self._size + end - begin > self._limit and self._lines:
            self.omitted_bytes += end - begin
            return
        self._size += end - begin
        self._lines.append((begin, min(end, begin + self._limit)))

    async def text(self, context: int) -> str:
        """Return the lines with `context` lines before and after each; `--` separates groups that are not adjacent."""
        pieces: list[str] = []
        size = 0
        async for begin, end in self._groups(context):
            size += end - begin
            if size > self._limit and pieces:
                self.omitted_bytes += end - begin
                continue
            group = self._stream.read(begin, end).decode("utf-8", "replace")
            pieces.append(group if group.endswith("\n") else f"{group}\n")
        return (_SEPARATOR if context else "").join(pieces)

    async def _groups(self, context: int) -> AsyncIterator[tuple[int, int]]:
        """Yield the ranges of the lines with their context. Only text between two lines is read, and that once."""
        next_begins = [begin for begin, _ in self._lines[1:]]
        begin = self._lines_before(self._begin, self._lines[0][0], context) if self._lines else 0
        read_bytes = 0
        for number, (_, end) in enumerate(self._lines):
            if number % _YIELD_LINES == 0 or read_bytes > _YIELD_BYTES:
                await asyncio.sleep(0)
                read_bytes = 0
            last = number == len(next_begins)
            after = self._lines_after(end, self._end if last else next_begins[number], context)
            before = after if last else self._lines_before(after, next_begins[number], context)
            read_bytes += (after - end) + (0 if last else next_begins[number] - before) + 2 * _CONTEXT_BYTES
            if last or before > after:
                yield begin, after
                begin = before

    def _lines_before(self, begin: int, end: int, count: int) -> int:
        """Return where the last `count` lines between two offsets begin."""
        size = min(_CONTEXT_BYTES, self._limit)
        while True:
            text = self._stream.read(max(begin, end - size), end)
            at = len(text)
            for _ in range(count):
                if not at:
                    break
                at = text.rfind(b"\n", 0, at - 1) + 1
            if at or len(text) < size or size >= self._limit:
                return end - len(text) + at
            size = min(size * 2, self._limit)

    def _lines_after(self, begin: int, end: int, count: int) -> int:
        """Return where the first `count` lines between two offsets end."""
        size = min(_CONTEXT_BYTES, self._limit)
        while True:
            text = self._stream.read(begin, min(end, begin + size))
            at = 0
            for _ in range(count):
                if at == len(text):
                    break
                at = text.find(b"\n", at) + 1 or len(text)
            if at < len(text) or len(text) < size or size >= self._limit:
                return begin + at
            size = min(size * 2, self._limit)


def _matching_lines(text: bytes, pattern: Any) -> list[tuple[int, int]]:
    """Return where the matching lines begin and end."""
    lines, position = [], 0
    while position < len(text) and (found := pattern.search(text, position)) is not None and found.start() < len(text):
        newline = text.find(b"\n", found.start())
        position = len(text) if newline < 0 else newline + 1
        lines.append((text.rfind(b"\n", 0, found.start()) + 1, position))
    return lines

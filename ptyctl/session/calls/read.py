"""Reads by cursor and of the tail (ptyctl_session_io). Reading needs no lock and never drives the channel.

The lines of prompt marks are hidden in the returned text; cursors and sizes count them.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace

from ptyctl.api.controller import Progress
from ptyctl.api.errors import invalid
from ptyctl.api.io import DEFAULT_READ_BYTES, DEFAULT_WAIT_MS, MAX_WAIT_MS, IoReply, IoRequest
from ptyctl.core.search import AnyPattern, compile_all, compile_pattern
from ptyctl.core.spool import (
    UTF8_MAX_BYTES,
    HiddenRanges,
    first_character,
    last_lines,
    leading_continuation_bytes,
    page_size,
    whole_characters,
)
from ptyctl.platforms.pattern import Pattern, line_patterns
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.io.output_wait import OutputWait, WaitConditions, WaitEnd, WaitProgress

from .cursor import dropped_message, move_if_expired, parse_cursor

#: After this time an incomplete character at the end is returned as invalid UTF-8 (seconds).
INCOMPLETE_CHARACTER_S = 0.2


async def read(stream: OutputStream, request: IoRequest, progress: Progress | None = None) -> IoReply:
    """Answer a read request.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a cursor, a pattern or a time.
    """
    hints = input_hints(request)
    if request.mode == "tail":
        begin = _tail_begin(stream, request)
        chunk = stream.read(begin, stream.spool_end)
        lost = stream.spool_end - begin - len(chunk)
        return _reply(stream, request, begin, lost, "stopped", _visible(stream, chunk, begin), stream.spool_end, hints)
    asked = parse_cursor(request.cursor, stream.spool_end, "cursor") if request.cursor is not None else stream.spool_end
    if request.mode == "history":
        return _history(stream, request, asked)
    conditions = wait_conditions(request)
    any_text = conditions.pattern is None and conditions.idle_s is None
    return await receive(stream, request, asked, replace(conditions, any_text=any_text), progress)


async def receive(
    stream: OutputStream, request: IoRequest, asked: int, conditions: WaitConditions, progress: Progress | None
) -> IoReply:
    """Wait for a condition from a cursor, and return the text.

    A pattern is searched in all output. Only a given `max_bytes` ends the wait; the default limits the chunk, which ends with
    the match.
    """
    hints = input_hints(request)
    begin = move_if_expired(stream, asked)
    limited = conditions.pattern is None or request.max_bytes is not None
    wait = OutputWait(stream, begin, replace(conditions, full_at=begin + _max_bytes(request) if limited else None))
    why = await wait.run(WaitProgress(stream, progress))
    limit = begin + _max_bytes(request)
    end, full = min(stream.spool_end, limit), why != "matched" and stream.spool_end >= limit
    if why == "matched" and wait.span is not None:
        end = wait.span.end
        if not limited and end - begin > _max_bytes(request):
            begin = _character_start(stream, end - _max_bytes(request))
    if begin < stream.spool_start:  # its text left the window during the wait
        begin = stream.window.character_start(stream.spool_start)
        end = max(end, begin)
    chunk = stream.read(begin, end)
    if why != "matched":
        chunk = await _at_a_boundary(stream, chunk, begin)
    shown = chunk
    if why == "matched" and request.include_match is False and wait.span is not None:
        shown = chunk[: max(wait.span.start - begin, 0)]
    text, next_cursor = _visible(stream, shown, begin), begin + len(chunk)
    reply = _reply(stream, request, begin, begin - asked, why, text, next_cursor, hints, full=full)
    if why == "matched" and request.until_any is not None and wait.span is not None:
        reply.match_index = wait.span.index
    return reply


def _history(stream: OutputStream, request: IoRequest, cursor: int) -> IoReply:
    """Read from any cursor, from memory or from disk, in whole characters. Text that was not persisted is skipped."""
    begin, size = cursor, _max_bytes(request)
    if begin < stream.window.start and begin >= stream.transcript.spool_persisted:
        begin = min(stream.window.start, stream.spool_end)
    chunk = stream.read(begin, min(begin + size + UTF8_MAX_BYTES, stream.spool_end))
    whole = page_size(chunk, size)
    text, end = _visible(stream, chunk[:whole], begin), begin + whole
    full = end < stream.spool_end and stream.spool_end >= begin + size
    return _reply(stream, request, begin, begin - cursor, "stopped", text, end, (), full=full)


def wait_conditions(request: IoRequest) -> WaitConditions:
    """Return the deadline and the wait conditions of a request.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a pattern or a time.
    """
    timeout_ms = min(DEFAULT_WAIT_MS if request.timeout_ms is None else request.timeout_ms, MAX_WAIT_MS)
    idle_ms = request.until_idle_ms
    if idle_ms is not None and idle_ms > timeout_ms:
        raise invalid(f"until_idle_ms {idle_ms} is larger than timeout_ms {timeout_ms}")
    pattern = None
    if request.until_any is not None:
        pattern = AnyPattern(compile_all(request.until_any, "until_any"))
    elif request.until_regex is not None:
        pattern = compile_pattern(request.until_regex, "until_regex")
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    return WaitConditions(deadline, pattern, None if idle_ms is None else idle_ms / 1000)


def input_hints(request: IoRequest) -> tuple[Pattern, ...]:
    """Return the compiled patterns of questions. Raises PtyctlError INVALID_ARGUMENT or LIMIT_EXCEEDED."""
    return line_patterns(request.input_hints.wait_for_regexes if request.input_hints else None, "input_hints.wait_for_regexes")


def _character_start(stream: OutputStream, offset: int) -> int:
    """Return the first offset at or after `offset` at which a character begins."""
    return offset + leading_continuation_bytes(stream.read(offset, offset + UTF8_MAX_BYTES - 1))


def _max_bytes(request: IoRequest) -> int:
    return request.max_bytes or DEFAULT_READ_BYTES


def _tail_begin(stream: OutputStream, request: IoRequest) -> int:
    begin = max(stream.spool_start, stream.spool_end - _max_bytes(request))
    if begin >= stream.window.start:
        begin = stream.window.character_start(begin)
    if request.max_lines is None:
        return begin
    seen = HiddenRanges(stream.read(begin, stream.spool_end), begin, stream.prompts.within(begin, stream.spool_end))
    at = last_lines(seen.text, request.max_lines)
    return seen.offset(at) if at else begin


def _visible(stream: OutputStream, chunk: bytes, begin: int) -> bytes:
    return HiddenRanges(chunk, begin, stream.prompts.within(begin, begin + len(chunk))).text


async def _at_a_boundary(stream: OutputStream, chunk: bytes, begin: int) -> bytes:
    """Return the chunk without a trailing incomplete character, unless that is older than 200 ms."""
    whole = whole_characters(chunk)
    if whole == len(chunk):
        return chunk
    if begin + len(chunk) < stream.spool_end:  # cut by max_bytes: the rest of the character is available
        if not whole:
            chunk = stream.read(begin, begin + UTF8_MAX_BYTES)
            whole = first_character(chunk) or len(chunk)
        return chunk[:whole]
    loop = asyncio.get_running_loop()
    due = stream.last_data + INCOMPLETE_CHARACTER_S
    while stream.ended is None and not whole and loop.time() < due:
        await stream.wait(due)
        chunk = stream.read(begin, min(stream.spool_end, begin + UTF8_MAX_BYTES))
        whole = whole_characters(chunk)
    old = stream.ended is not None or loop.time() >= due
    return chunk if old else chunk[:whole]


def _reply(
    stream: OutputStream,
    request: IoRequest,
    begin: int,
    dropped: int,
    why: WaitEnd,
    shown: bytes,
    next_cursor: int,
    hints: tuple[Pattern, ...],
    *,
    full: bool = False,
) -> IoReply:
    encoding = request.encoding or "utf-8"
    chunk = shown.decode("utf-8", "replace") if encoding == "utf-8" else base64.b64encode(shown).decode()
    return IoReply(
        action="read",
        chunk=chunk,
        encoding=encoding,
        next_cursor=str(next_cursor),
        buffer_start_cursor=str(stream.spool_start),
        buffer_end_cursor=str(stream.spool_end),
        matched=why == "matched",
        idle_reached=why == "idle",
        timed_out=why == "timeout",
        eof=stream.ended is not None and next_cursor >= stream.spool_end,
        # only the last line counts: earlier questions have been answered
        waiting_for_input=any(hint.search(shown[shown.rfind(b"\n") + 1 :]) for hint in hints) if hints else None,
        truncated=dropped > 0,
        dropped_bytes=dropped,
        buffered_bytes=stream.spool_end - stream.spool_start,
        buffer_limit_bytes=stream.window.limit,
        max_bytes_reached=full or None,
        message=dropped_message(stream, begin, dropped) if dropped and request.mode != "tail" else None,
    )

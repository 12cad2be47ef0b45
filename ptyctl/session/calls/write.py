"""Writes of data and keys; with a condition, the write waits for the response after the echo of its line, and returns it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from ptyctl.api.controller import Progress
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError, invalid
from ptyctl.api.io import DEFAULT_WAIT_MS, MAX_WAIT_MS, IoReply, IoRequest
from ptyctl.cancellation import cancel_and_wait
from ptyctl.core.control_sequences import DECCKM, ETX, INTERRUPT_BYTES
from ptyctl.core.echo import echo_end, may_continue_echo
from ptyctl.core.keys import BREAK, INTERRUPTS, key_bytes, key_name
from ptyctl.session.activity import writer_fields
from ptyctl.session.io.gate import Writer
from ptyctl.session.io.output_wait import WaitProgress
from ptyctl.session.io.terminal_state import TerminalState
from ptyctl.session.session import Session

from .read import input_hints, receive, wait_conditions
from .screen_read import receive_screen

_NEWLINE = re.compile(r"\r\n?|\n")
#: Without a pattern and a time of silence, a write returns the response once it has paused for this long (seconds).
RESPONSE_PAUSE_S = 0.25
#: Limit of the wait for the text of a prompt whose mark has arrived, and once a line editor reads (seconds).
_PROMPT_TEXT_S, _EMPTY_PROMPT_S = 2.0, 0.2
#: Limits of the echo that is recognised: bytes, bytes for each one of the line, and rows for each 40 columns. All output of a
#: hostile far end is drawn within them.
_MIN_ECHO_BYTES, _MAX_ECHO_BYTES, _ECHO_BYTES_FACTOR = 512, 4096, 8
_MIN_ECHO_ROWS, _MAX_ECHO_ROWS, _ECHO_ROW_COLUMNS = 3, 16, 40


async def write(session: Session, request: IoRequest, progress: Progress | None = None) -> IoReply:
    """Answer a write request. Without a condition it returns at once, and `next_cursor` is the spool's end before the write.

    Raises:
        PtyctlError: INVALID_ARGUMENT, LOCKED, LOCK_REQUIRED, LOCK_LOST, REMOTE_CLOSED, ALREADY_CLOSED, UNSUPPORTED; IO_ERROR if
            it is later than `not_after`, or the far end did not accept all of it within the longest time that a call may take.
    """
    writer = Writer(
        request.task_id, sensitive=bool(request.sensitive), deadline=asyncio.get_running_loop().time() + MAX_WAIT_MS / 1000
    )
    session.gate.check(writer)
    check_in_time(request.not_after)
    if request.waits:
        reply = await _write_and_wait(session, request, writer, progress)
    else:
        cursor = session.stream.spool_end
        written = await _type(session, request, writer)
        reply = IoReply(action="write", bytes_written=written, next_cursor=str(cursor))
    reply.policy, reply.edited = writer.review.warning(), writer.review.edited or None
    return reply


def check_in_time(not_after: int | None) -> None:
    """Check that input of a caller is not too old: keys that waited for a server or a network would surprise who typed them.

    Args:
        not_after: the limit of the caller, in epoch milliseconds of this server's clock.

    Raises:
        PtyctlError: IO_ERROR
    """
    if not_after is None or (late_ms := int(time.time() * 1000) - not_after) <= 0:
        return
    raise PtyctlError(
        ErrorCode.IO_ERROR,
        f"the input arrived {late_ms} ms after its time limit, and was not typed",
        {"reason": "late", "bytes_written": 0},
        hint=NextStep.READ_SCREEN,
    )


async def press_key(session: Session, key: str, writer: Writer) -> int:
    """Press a named key; return the number of bytes sent. Raises PtyctlError as `write`."""
    name = key_name(key)
    if name == BREAK:
        await session.gate.send_break(writer)
        session.activity.record("break", **writer_fields(writer))
        session.runs.interrupted()
        return 0
    data = key_bytes(name, session.open_channel().enter, DECCKM in session.stream.terminal_modes)
    if name in INTERRUPTS:
        session.runs.interrupted()
        return await session.gate.interrupt(data, writer)
    if ETX in data:
        session.runs.interrupted()
    return await session.gate.write(data, writer)


async def type_text(session: Session, text: str, writer: Writer) -> int:
    """Type text; a Ctrl-C in it interrupts the current run. Return the number of bytes sent. Raises PtyctlError as `write`."""
    if ETX.decode() in text:
        session.runs.interrupted()
    return await session.gate.type(text, writer)


async def type_with_approval(
    session: Session,
    type_input: Callable[[], Awaitable[int]],
    writer: Writer,
    approval_id: str | None,
    wait_ms: int,
    text: str,
    *,
    return_pending: bool = False,
) -> int:
    """Type input. If it needs an approval, wait for the answer, and type the approved text.

    Args:
        approval_id: of an earlier call with the same input.
        text: the input, if it is text.
        wait_ms: how long to wait for the answer.
        return_pending: do not wait for one that the caller can elicit.

    Raises:
        PtyctlError: APPROVAL_PENDING if nobody has answered in time; DECLINED; as `type_input`.
    """
    if approval_id is None:
        try:
            return await type_input()
        except PtyctlError as error:
            if error.code is not ErrorCode.APPROVAL_PENDING:
                raise
            approval_id = str(error.details["approval_id"])
    approval = session.authorization.find_approval(approval_id, writer.owner)
    if approval.held.block_id is not None:
        raise invalid("this approval is for a command", hint="wait for its block_id", field="approval_id")
    keys = approval.held.keys
    lines, _, rest = (text, "", "") if keys else _NEWLINE.sub("\n", text).rpartition("\n")
    if lines.replace("\n", "").isprintable() and not approval.held.text.endswith(
        lines
    ):  # other keys may have completed the line
        raise invalid("this approval is for other input", hint="repeat the write that it was asked for", field="approval_id")
    pending = approval.pending()
    if not (return_pending and pending is not None and pending.elicitation):
        await approval.wait(asyncio.get_running_loop().time() + min(wait_ms, MAX_WAIT_MS) / 1000)
    await session.authorization.shell_known(approval)
    session.gate.check(writer)
    approved = session.authorization.confirm(approval, writer)
    if keys:
        return await session.gate.type(approved, replace(writer, judged="keys"))
    written = await session.gate.type(f"{approved}\n", replace(writer, judged="line"))
    return written + (await session.gate.type(rest, writer) if rest else 0)


async def _type(session: Session, request: IoRequest, writer: Writer) -> int:
    def type_input() -> Awaitable[int]:
        return _type_input(session, request, writer)

    wait_ms = DEFAULT_WAIT_MS if request.timeout_ms is None else request.timeout_ms
    waits = request.waits or request.approval_id is not None
    text = request.data if request.data is not None and request.encoding != "base64" else ""
    return await type_with_approval(
        session,
        type_input,
        writer,
        request.approval_id,
        wait_ms if waits else 0,
        text,
        return_pending=request.return_pending,
    )


async def _type_input(session: Session, request: IoRequest, writer: Writer) -> int:
    if request.key is not None:
        return await press_key(session, request.key, writer)
    return await _type_data(session, request, writer)


async def _write_and_wait(session: Session, request: IoRequest, writer: Writer, progress: Progress | None) -> IoReply:
    """Write, repeatedly if requested, and return the response."""
    stream = session.stream
    conditions = wait_conditions(request)  # invalid patterns are reported before anything is typed
    input_hints(request)
    if conditions.pattern is None and conditions.idle_s is None:
        conditions = replace(conditions, idle_s=RESPONSE_PAUSE_S, idle_after_output=True)
    await _prompt_text(session)
    if not _is_interrupt(request):
        await session.gate.prompt_shown()  # the echo follows this prompt
    cursor, raw = stream.spool_end, stream.raw_size
    line = _echoed_line(request)
    if line is not None:
        conditions = replace(conditions, search_begin=_WrittenLine(session.terminal, line).echo_end)
    written = await _type(session, request, writer)
    if writer.review.permit is not None:  # the time for the response begins with the approved input
        conditions = replace(conditions, deadline=wait_conditions(request).deadline)
    if request.mode == "screen":
        response = receive_screen(session, request, conditions, WaitProgress(stream, progress), after_raw=raw)
    else:
        text_request = request.model_copy(update={"encoding": None})  # the request's is that of `data`
        response = receive(stream, text_request, cursor, conditions, progress)
    if request.repeat_ms is None:
        reply = await response
    else:
        reply, repeated = await _repeating(lambda: _type(session, request, writer), request.repeat_ms / 1000, response)
        written += repeated
    reply.action, reply.bytes_written = "write", written
    return reply


def _is_interrupt(request: IoRequest) -> bool:
    if request.key is not None:
        return key_name(request.key) in INTERRUPTS
    return request.data is not None and not request.data.encode("utf-8", "surrogateescape").strip(INTERRUPT_BYTES)


async def _prompt_text(session: Session) -> None:
    """Wait for the text of a prompt whose mark has arrived.

    A line that is typed earlier appears twice: the terminal echoes it at once, and the line editor again after the prompt.
    """
    stream, now = session.stream, asyncio.get_running_loop().time
    last, limit = stream.prompts.last(), now() + _PROMPT_TEXT_S
    while last is not None and last[1] == stream.spool_end and stream.ended is None:
        due = min(limit, stream.last_data + _EMPTY_PROMPT_S) if session.terminal.line_editor_active() else limit
        if now() >= due:
            return
        await stream.wait(due)


async def _repeating(
    type_again: Callable[[], Awaitable[int]], interval_s: float, response: Awaitable[IoReply]
) -> tuple[IoReply, int]:
    """Type at an interval until the response is complete. Return it, and the number of bytes typed. Raises as either does."""
    written = 0

    async def repeat() -> None:
        nonlocal written
        while True:
            await asyncio.sleep(interval_s)
            written += await type_again()

    waiting, typing = asyncio.ensure_future(response), asyncio.ensure_future(repeat())
    try:
        await asyncio.wait({waiting, typing}, return_when=asyncio.FIRST_COMPLETED)
        if typing.done() and not waiting.done():
            typing.result()  # raises why it cannot type
        return await waiting, written
    finally:
        await cancel_and_wait(waiting, typing)


class _WrittenLine:
    """A line that is about to be written at the end of the output, and the place after its echo."""

    def __init__(self, terminal: TerminalState, line: str) -> None:
        stream = terminal.stream
        self._terminal, self._stream, self._line = terminal, stream, line
        self._prompt, self._raw, self._spool = terminal.last_line(), stream.raw_size, stream.spool_end
        self._line_feeds = stream.line_feeds
        columns = len(self._prompt) + len(line)
        self._limit = min(_MIN_ECHO_BYTES + _ECHO_BYTES_FACTOR * columns, _MAX_ECHO_BYTES)
        self._rows = min(_MIN_ECHO_ROWS + 2 * columns // _ECHO_ROW_COLUMNS, _MAX_ECHO_ROWS)

    def echo_end(self) -> int | None:
        """Return the spool offset after the echo; None while the output may be a part of it.

        A line editor may wrap or repaint the echo. If the output does not begin with it, this is where the output begins.
        """
        stream, plain = self._stream, f"{self._line}\n".encode()
        seen = stream.read(self._spool, min(stream.spool_end, self._spool + len(plain)))
        if seen == plain:
            return self._spool + len(plain)
        if stream.ended is None and plain.startswith(seen):
            return None
        size = self._size(stream.read_raw(self._raw, min(self._raw + self._limit, stream.raw_size)))
        if size is None and stream.ended is None:
            return None
        return stream.spool_offset(self._raw + size) if size else self._spool

    def _size(self, data: bytes) -> int | None:
        """Return the size of the echo in `data`; 0 if there is none, None while it may be incomplete."""
        stream, where = self._stream, (self._prompt, self._line, self._terminal.width())
        if stream.line_feeds != self._line_feeds:  # each line feed may end it
            self._line_feeds = stream.line_feeds
            size = echo_end(data, *where, self._rows)
            if size is not None:
                return size
        return None if len(data) < self._limit and may_continue_echo(data, *where) else 0


def _echoed_line(request: IoRequest) -> str | None:
    """Return the line whose echo does not match. Text without Enter is none: a caller may wait for its echo."""
    line, enter, _ = (request.data or "").partition("\n")
    if not enter or request.encoding == "base64" or request.sensitive or request.repeat_ms is not None:
        return None
    return line


async def _type_data(session: Session, request: IoRequest, writer: Writer) -> int:
    data = request.data or ""
    if request.encoding == "base64":
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            hint = "encode the bytes, or omit encoding for text"
            raise invalid("data is not valid base64", hint=hint, field="data") from None
        if ETX in raw:
            session.runs.interrupted()
        return await session.gate.write(raw, writer)
    return await type_text(session, data, writer)

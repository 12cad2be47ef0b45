"""Reads of the screen: mode `screen` of ptyctl_session_io, and the tools of the toolset `screen`, which also read raw bytes."""

from __future__ import annotations

import asyncio
import base64
import time
from operator import attrgetter, methodcaller
from typing import Any

from ptyctl.api.controller import Progress
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.api.screen import (
    AttributeRun,
    DeltasReply,
    Position,
    PtyReadRaw,
    PtyReadScreen,
    PtyReadScreenDeltas,
    PtyReadScrollback,
    PtyScreenStatus,
    RawReply,
    ScreenReply,
    ScreenStatusReply,
    ScrollbackReply,
)
from ptyctl.core.screen import ScreenSnapshot, StyledRun
from ptyctl.core.search import AnyMatch, compile_pattern
from ptyctl.session.io.output_wait import WaitConditions, WaitEnd, WaitProgress
from ptyctl.session.io.pattern_search import search_with
from ptyctl.session.io.time_slice import base64_text
from ptyctl.session.screen.screen import ATTRIBUTES_COST, ScreenState, run_for
from ptyctl.session.session import Session

from .block_read import find_block
from .expect import wait_seconds
from .read import input_hints, wait_conditions

#: Interval between two checks of a screen that changes continuously (seconds).
_RECHECK_S = 0.02
#: Limit of the styled runs in a reply: the cells of a screen of 200 by 50, each with another style than its neighbour.
_MAX_RUNS = 10_000
_STYLE_FIELDS = tuple(name for name in StyledRun.__slots__ if name not in ("begin", "end"))
_STYLE = attrgetter(*_STYLE_FIELDS)


async def read_in_screen_mode(session: Session, request: IoRequest, progress: Progress | None) -> IoReply:
    """Answer a read request with mode screen; without a condition at once.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a pattern or a time; BUSY if the screen is too far behind.
    """
    return await receive_screen(session, request, wait_conditions(request), WaitProgress(session.stream, progress))


async def receive_screen(
    session: Session, request: IoRequest, conditions: WaitConditions, progress: WaitProgress, *, after_raw: int = -1
) -> IoReply:
    """Wait for a condition on the screen, and return the rows. A match needs more than `after_raw` received bytes."""
    hints = input_hints(request)
    why, state, index = await _wait_for_screen(session, conditions, progress, after_raw=after_raw)
    snapshot = state.snapshot
    row, col = snapshot.cursor
    before_cursor = snapshot.rows[row].ljust(col)[:col].encode()
    status = session.display.status_message()
    return IoReply(
        action="read",
        notices=[status] if status else None,
        next_cursor=str(session.stream.spool_end),
        matched=why == "matched",
        match_index=index if request.until_any is not None else None,
        idle_reached=why == "idle",
        timed_out=why == "timeout",
        eof=session.stream.ended is not None,
        waiting_for_input=any(hint.search(before_cursor) for hint in hints) if hints else None,
        rows=list(snapshot.rows),
        cursor_row=row,
        cursor_col=col,
        title=snapshot.title,
        alt_screen=snapshot.alt_screen,
        cols=snapshot.cols,
        rows_count=snapshot.rows_count,
    )


async def _wait_for_screen(
    session: Session, until: WaitConditions, progress: WaitProgress, *, after_raw: int = -1, attributes: bool = False
) -> tuple[WaitEnd, ScreenState, int | None]:
    """Return why the wait ended, the screen at that time, and the index of the pattern that matched.

    A match counts only once more than `after_raw` bytes were received: before, the screen is that of before the input.
    """
    loop = asyncio.get_running_loop()
    still_since, seen = loop.time(), None
    while True:
        ended, answered = session.stream.ended is not None, session.stream.raw_size > after_raw
        state = await session.screen.state(attributes=attributes)
        snapshot = state.snapshot
        if until.pattern is None and until.idle_s is None:
            return "stopped", state, None
        if seen is not None and snapshot != seen:
            still_since = loop.time()
        if until.pattern is not None and answered and snapshot != seen:
            text = "\n".join(snapshot.rows).encode()
            turn, search = session.stream.search_turn, methodcaller("search", text)
            found = await search_with(turn, until.pattern, len(text), search, until.deadline)
            if found is not None:
                return "matched", state, found.index if isinstance(found, AnyMatch) else 0
        if ended:
            return "eof", state, None
        waits_for_output = until.idle_after_output and not answered
        idle_s = float("inf") if until.idle_s is None or waits_for_output else until.idle_s
        now, idle_at = loop.time(), still_since + idle_s
        if now >= idle_at:
            return "idle", state, None
        if now >= until.deadline:
            return "timeout", state, None
        seen = snapshot if answered else None
        await _pause(session, state, min(until.deadline, idle_at, progress.due() or until.deadline))
        progress.report()


async def _pause(session: Session, state: ScreenState, due: float) -> None:
    """Wait until the screen may have changed, or the time is up."""
    loop = asyncio.get_running_loop()
    while not session.screen.is_outdated(state) and session.stream.ended is None and loop.time() < due:
        await session.stream.wait(due)
    if session.screen.is_outdated(state):
        await asyncio.sleep(min(_RECHECK_S, max(due - loop.time(), 0)))


async def read_raw(session: Session, request: PtyReadRaw) -> RawReply:
    """Return raw bytes; fewer than were received if some were not kept."""
    if request.from_offset > session.stream.raw_size:
        raise invalid(f"from_offset {request.from_offset} is past the end, {session.stream.raw_size}", field="from_offset")
    data = session.stream.read_raw(request.from_offset, request.from_offset + request.max_bytes)
    size, kept = session.stream.raw_size, session.stream.raw_kept
    lost = size - kept if not data else 0
    return RawReply(
        data_b64=await base64_text(data),
        offset=request.from_offset,
        resume_offset=request.from_offset + len(data),
        raw_size=size,
        message=f"{lost} bytes from {kept} on were not kept: the disk or the quota was full" if lost else None,
    )


async def read_screen(session: Session, request: PtyReadScreen) -> ScreenReply:
    """Return the screen now, once a condition holds, or `at` an offset or the end of a block.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a pattern, an offset past the end, or of bytes that were not kept; NOT_FOUND for a
            block; BUSY.
    """
    if request.until_regex is not None or request.until_idle_ms is not None:
        pattern = None if request.until_regex is None else compile_pattern(request.until_regex, "until_regex")
        idle_s = None if request.until_idle_ms is None else request.until_idle_ms / 1000
        deadline = asyncio.get_running_loop().time() + wait_seconds(request.timeout_ms)
        conditions = WaitConditions(deadline, pattern, idle_s)
        why, state, _ = await _wait_for_screen(
            session, conditions, WaitProgress(session.stream, None), attributes=request.attributes
        )
        reply = await _screen_reply(state, int(time.time() * 1000), session.display.status_message())
        ended = {"matched": why == "matched", "idle_reached": why == "idle", "timed_out": why == "timeout"}
        return reply.model_copy(update=ended)
    at, source = None if request.at is None else _offset(session, request.at), session.display.source
    if at is not None and at >= source.end and not await source.changed_at(source.end):
        at = None
    if at is None:
        state = await session.screen.state(attributes=request.attributes, paint=request.paint)
        return await _screen_reply(state, int(time.time() * 1000), session.display.status_message())
    state = await session.screen.state_at(at, attributes=request.attributes, paint=request.paint)
    return await _screen_reply(state, await source.time_at(at), None)


async def read_deltas(session: Session, request: PtyReadScreenDeltas) -> DeltasReply:
    """Return the deltas from a cursor on. Reading starts the recording, unless the session is closed."""
    deltas = session.display.deltas
    if session.state != "closed":
        await deltas.record()
    found, resume = deltas.since(request.cursor, request.limit)
    full = "there is no room for more deltas; the current screen can still be read" if deltas.full else None
    message = full or session.display.status_message()
    return DeltasReply(deltas=found, cursor=request.cursor, resume_cursor=resume, message=message)


async def read_status(session: Session, request: PtyScreenStatus) -> ScreenStatusReply:
    """Return the screen's title, size and cursor, and the end of the deltas."""
    snapshot, deltas = (await session.screen.state()).snapshot, session.display.deltas
    return ScreenStatusReply(
        cursor=deltas.cursor,
        title=snapshot.title,
        alt_screen=snapshot.alt_screen,
        rows=snapshot.rows_count,
        cols=snapshot.cols,
        position=_position(snapshot),
    )


async def read_scrollback(session: Session, request: PtyReadScrollback) -> ScrollbackReply:
    """Return lines that scrolled off the main screen.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a line past the end; BUSY.
    """
    async with session.screen.current() as replay:
        first, limit, attributes = request.from_line, request.limit, request.attributes
        cells = limit * replay.model.cols * (ATTRIBUTES_COST if attributes else 1)
        found = await run_for(cells, lambda: replay.model.scrollback_range(first, limit, attributes=attributes))
    if request.from_line is not None and request.from_line > found.end:
        raise invalid(f"from_line {request.from_line} is past the end, {found.end}", field="from_line")
    return ScrollbackReply(
        lines=list(found.lines),
        from_line=found.first,
        oldest_line=found.oldest,
        end_line=found.end,
        attributes=await _attribute_rows(found.attributes),
    )


def _offset(session: Session, at: int | str) -> int:
    """Return the raw offset of an earlier screen."""
    if isinstance(at, str):
        at = session.stream.raw_size if (end := find_block(session, at).raw_end) is None else end
    source = session.display.source
    if at > source.size:
        raise invalid(
            f"at {at} is past the end, {source.size}; give a raw_offset of an earlier reply, or a block_id", field="at"
        )
    if source.size > at > source.kept:
        raise invalid(f"at {at}: what came from {source.kept} on was not kept, the disk or the quota was full", field="at")
    return at


async def _screen_reply(state: ScreenState, ts: int, message: str | None) -> ScreenReply:
    snapshot = state.snapshot
    return ScreenReply(
        message=message,
        rows=list(snapshot.rows),
        cursor=_position(snapshot),
        cursor_visible=snapshot.cursor_visible,
        title=snapshot.title,
        alt_screen=snapshot.alt_screen,
        cols=snapshot.cols,
        rows_count=snapshot.rows_count,
        ts=ts,
        raw_offset=state.raw,
        attributes=await _attribute_rows(snapshot.attributes),
        data_b64=None if state.painted is None else base64.b64encode(state.painted).decode(),
    )


def _position(snapshot: ScreenSnapshot) -> Position:
    return Position(row=snapshot.cursor[0], col=snapshot.cursor[1])


async def _attribute_rows(rows: tuple[tuple[StyledRun, ...], ...] | None) -> list[list[AttributeRun]] | None:
    """Return the runs of each row. Raises PtyctlError LIMIT_EXCEEDED if they are too many."""
    if rows is None:
        return None
    if (count := sum(map(len, rows))) > _MAX_RUNS:
        raise PtyctlError(
            ErrorCode.LIMIT_EXCEEDED,
            f"attributes: the rows have {count} styled runs, more than {_MAX_RUNS}",
            {"field": "attributes"},
            hint="read fewer lines, or read them without attributes",
        )
    styles: dict[tuple[Any, ...], dict[str, Any]] = {}

    def attributes(run: StyledRun) -> AttributeRun:
        if (fields := styles.get(style := _STYLE(run))) is None:
            fields = styles[style] = _changed_fields(style)
        return AttributeRun(begin=run.begin, end=run.end, **fields)

    return await run_for(count * ATTRIBUTES_COST, lambda: [[attributes(run) for run in row] for row in rows])


def _changed_fields(style: tuple[Any, ...]) -> dict[str, Any]:
    """Return the attributes that differ from the terminal's default."""
    values = zip(_STYLE_FIELDS, style, strict=True)
    return {name: value for name, value in values if value is not False and value != "default"}

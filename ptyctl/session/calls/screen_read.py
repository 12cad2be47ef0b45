"""Reads with `mode: screen`: the screen now, or once it matches a pattern or stops changing (ptyctl_session_io)."""

from __future__ import annotations

import asyncio

from ptyctl.api.controller import Progress
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.core.screen import ScreenSnapshot
from ptyctl.session.io.output_wait import WaitConditions, WaitEnd, WaitProgress
from ptyctl.session.screen.screen import ScreenState
from ptyctl.session.session import Session

from .read import input_hints, wait_conditions

#: Interval between two looks at a screen that changes all the time (seconds).
_LOOK_AGAIN_S = 0.02


async def read_on_screen(session: Session, request: IoRequest, progress: Progress | None = None) -> IoReply:
    """Answer a read request with mode screen; without a condition at once.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a pattern or a time; BUSY if the screen is too far behind.
    """
    hints = input_hints(request)
    why, snapshot = await _wait(session, wait_conditions(request), WaitProgress(session.stream, progress))
    row, col = snapshot.cursor
    before_cursor = snapshot.rows[row].ljust(col)[:col].encode()
    status = session.display.status_message()
    return IoReply(
        action="read",
        notices=[status] if status else None,
        next_cursor=str(session.stream.spool_end),
        matched=why == "matched",
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


async def _wait(session: Session, until: WaitConditions, progress: WaitProgress) -> tuple[WaitEnd, ScreenSnapshot]:
    """Return why the wait ended, and the screen at that time."""
    loop = asyncio.get_running_loop()
    still_since, seen = loop.time(), None
    while True:
        ended = session.stream.ended is not None
        state = await session.screen.state()
        screen = state.snapshot
        if until.pattern is None and until.idle_s is None:
            return "stopped", screen
        if seen is not None and screen != seen:
            still_since = loop.time()
        if screen != seen and until.pattern is not None and until.pattern.search("\n".join(screen.rows).encode()):
            return "matched", screen
        if ended:
            return "eof", screen
        now, idle_at = loop.time(), still_since + (float("inf") if until.idle_s is None else until.idle_s)
        if now >= idle_at:
            return "idle", screen
        if now >= until.deadline:
            return "timeout", screen
        seen = screen
        await _pause(session, state, min(until.deadline, idle_at, progress.due() or until.deadline))
        progress.report()


async def _pause(session: Session, state: ScreenState, due: float) -> None:
    """Wait until the screen may have changed, or the time is up."""
    loop = asyncio.get_running_loop()
    while not session.screen.is_outdated(state) and session.stream.ended is None and loop.time() < due:
        await session.stream.wait(due)
    if session.screen.is_outdated(state):
        await asyncio.sleep(min(_LOOK_AGAIN_S, max(due - loop.time(), 0)))

"""Reads with `mode: screen`: the screen now, or once it matches a pattern or stops changing (ptyctl_session_io)."""

from __future__ import annotations

import asyncio
from operator import methodcaller

from ptyctl.api.controller import Progress
from ptyctl.api.io import IoReply, IoRequest
from ptyctl.core.search import AnyMatch
from ptyctl.session.io.output_wait import WaitConditions, WaitEnd, WaitProgress
from ptyctl.session.io.pattern_search import search_with
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
    return await screen_reply(session, request, wait_conditions(request), WaitProgress(session.stream, progress))


async def screen_reply(
    session: Session, request: IoRequest, conditions: WaitConditions, progress: WaitProgress, *, after_raw: int = -1
) -> IoReply:
    """Wait for a condition on the screen, and return the rows. See `wait_for_screen` for `after_raw`."""
    hints = input_hints(request)
    why, state, index = await wait_for_screen(session, conditions, progress, after_raw=after_raw)
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


async def wait_for_screen(
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
        screen = state.snapshot
        if until.pattern is None and until.idle_s is None:
            return "stopped", state, None
        if seen is not None and screen != seen:
            still_since = loop.time()
        if until.pattern is not None and answered and screen != seen:
            text = "\n".join(screen.rows).encode()
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
        seen = screen if answered else None
        await _pause(session, state, min(until.deadline, idle_at, progress.due() or until.deadline))
        progress.report()


async def _pause(session: Session, state: ScreenState, due: float) -> None:
    """Wait until the screen may have changed, or the time is up."""
    loop = asyncio.get_running_loop()
    while not session.screen.is_outdated(state) and session.stream.ended is None and loop.time() < due:
        await session.stream.wait(due)
    if session.screen.is_outdated(state):
        await asyncio.sleep(min(_LOOK_AGAIN_S, max(due - loop.time(), 0)))

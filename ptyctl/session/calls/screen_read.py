"""Reads with `mode: screen`: the screen now, or once it matches a pattern or stops changing (ptyctl_session_io)."""

from __future__ import annotations

import asyncio
from typing import Any

from ptyctl.api.controller import Progress
from ptyctl.api.errors import invalid
from ptyctl.api.io import MAX_WAIT_MS, IoReply, IoRequest
from ptyctl.core.screen import ScreenSnapshot
from ptyctl.core.search import compile_all, compile_pattern
from ptyctl.session.io.output_wait import WaitEnd, WaitProgress
from ptyctl.session.screen.screen import ScreenState
from ptyctl.session.session import Session

from .read import DEFAULT_READ_TIMEOUT_MS

#: Interval between two looks at a screen that changes all the time (seconds).
_LOOK_AGAIN_S = 0.02


async def read_on_screen(session: Session, request: IoRequest, progress: Progress | None = None) -> IoReply:
    """Answer a read request with mode screen; without a condition at once.

    Raises:
        PtyctlError: INVALID_ARGUMENT for a pattern or a time; BUSY if the screen is too far behind.
    """
    hints = compile_all(request.input_hints.wait_for_regexes if request.input_hints else None, "input_hints.wait_for_regexes")
    wait = _Wait(session, request)
    why, state = await wait.run(WaitProgress(session.stream, progress))
    snapshot = state.snapshot
    told = session.display.status_message()
    return IoReply(
        action="read",
        notices=[told] if told else None,
        next_cursor=str(session.stream.spool_end),
        matched=why == "matched",
        idle_reached=why == "idle",
        timed_out=why == "timeout",
        eof=session.stream.ended is not None,
        waiting_for_input=_waits(snapshot, hints) if hints else None,
        rows=list(snapshot.rows),
        cursor_row=snapshot.cursor[0],
        cursor_col=snapshot.cursor[1],
        title=snapshot.title,
        alt_screen=snapshot.alt_screen,
        cols=snapshot.cols,
        rows_count=snapshot.rows_count,
    )


class _Wait:
    def __init__(self, session: Session, request: IoRequest) -> None:
        timeout_ms = min(DEFAULT_READ_TIMEOUT_MS if request.timeout_ms is None else request.timeout_ms, MAX_WAIT_MS)
        idle_ms = request.until_idle_ms
        if idle_ms is not None and idle_ms > timeout_ms:
            raise invalid(f"until_idle_ms {idle_ms} is larger than timeout_ms {timeout_ms}")
        self._session = session
        self._pattern = None if request.until_regex is None else compile_pattern(request.until_regex, "until_regex")
        self._idle_s = None if idle_ms is None else idle_ms / 1000
        self._conditional = self._pattern is not None or idle_ms is not None
        self._still_since = asyncio.get_running_loop().time()
        self._deadline = self._still_since + timeout_ms / 1000

    async def run(self, reporter: WaitProgress) -> tuple[WaitEnd, ScreenState]:
        """Return why the wait ended, and the screen at that time."""
        seen: ScreenSnapshot | None = None
        while True:
            ended = self._session.stream.ended is not None
            state = await self._session.screen.state()
            if seen is not None and state.snapshot != seen:
                self._still_since = asyncio.get_running_loop().time()
            why = self._over(state, ended, state.snapshot != seen)
            if why is not None:
                return why, state
            seen = state.snapshot
            await self._pause(state, reporter.due())
            reporter.report()

    def _over(self, state: ScreenState, ended: bool, new: bool) -> WaitEnd | None:
        if not self._conditional:
            return "stopped"
        if new and self._pattern is not None and self._pattern.search("\n".join(state.snapshot.rows).encode()):
            return "matched"
        if ended:
            return "eof"
        now = asyncio.get_running_loop().time()
        if self._idle_s is not None and now >= self._still_since + self._idle_s:
            return "idle"
        return "timeout" if now >= self._deadline else None

    async def _pause(self, state: ScreenState, report: float | None) -> None:
        """Wait until the screen may have changed, or the time is up."""
        due = self._deadline if self._idle_s is None else min(self._deadline, self._still_since + self._idle_s)
        if report is not None:
            due = min(due, report)
        loop = asyncio.get_running_loop()
        while not self._session.screen.is_outdated(state) and self._session.stream.ended is None and loop.time() < due:
            await self._session.stream.wait(due)
        if self._session.screen.is_outdated(state):
            await asyncio.sleep(min(_LOOK_AGAIN_S, max(due - loop.time(), 0)))


def _waits(snapshot: ScreenSnapshot, hints: list[Any]) -> bool:
    """Return whether a hint matches the cursor's row up to the cursor."""
    row, col = snapshot.cursor
    line = snapshot.rows[row].ljust(col)[:col].encode()
    return any(hint.search(line) for hint in hints)

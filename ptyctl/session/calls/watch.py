"""Watching a session live. Each watcher has its own pace and does not delay others."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.api.operator import WatchItem
from ptyctl.clock import epoch_ms
from ptyctl.core.sanitizer import MAX_SEQUENCE_BYTES, TerminalSanitizer
from ptyctl.session.screen.screen import run_for
from ptyctl.session.session import Session

#: Largest output in one item.
PIECE_BYTES = 64 * 1024
#: Minimum interval at which a watcher that is too far behind gets the screen (seconds); at least twice the time of painting.
_PAINT_INTERVAL_S = 0.25
#: A watch ends with BUSY if output arrives faster than it is drawn for this time (seconds).
_PAINT_TIMEOUT_S = 120.0


async def watch(
    session: Session,
    from_offset: int | None = None,
    max_behind: int | None = None,
    scrollback: int = 0,
    tick_ms: int | None = None,
) -> AsyncGenerator[WatchItem, None]:
    """Yield items (see `WatchItem`) until the session is closed and all items were delivered.

    Raises:
        PtyctlError: INVALID_ARGUMENT for an offset past the end; BUSY if the screen is too far behind at the start,
            or later for `_PAINT_TIMEOUT_S`.
    """
    watcher = _Watcher(session, max_behind, scrollback, tick_ms)
    unsubscribe = session.stream.subscribe_output(lambda raw, data: session.signal.notify())
    try:
        yield await watcher.begin(from_offset)
        while True:
            if watcher.is_outdated():
                yield await watcher.paint_again()
            elif (item := watcher.next()) is not None:
                yield item
            elif session.state == "closed":
                yield WatchItem(kind="end", raw_offset=session.stream.raw_size)
                return
            else:
                await session.signal.wait(watcher.next_check())
    finally:
        unsubscribe()


class _Watcher:
    """One watcher's position. With `max_behind` it sees the screen again instead of output that it cannot use."""

    def __init__(self, session: Session, max_behind: int | None, scrollback: int, tick_ms: int | None) -> None:
        self._session = session
        self._screen = session.screen
        self._event_log = session.events
        self._source = session.display.source
        self._max_behind = max_behind
        self._scrollback = scrollback
        self._tick_s = None if tick_ms is None else tick_ms / 1000
        self._next_tick: float | None = None
        self._raw = 0
        self._steps = 0
        self._next_paint = 0.0
        self._event = session.events.cursor
        self._pending_events: list[dict[str, Any]] = []
        self._last_state: tuple[object, ...] = ()

    async def begin(self, from_offset: int | None) -> WatchItem:
        """Return the first item: an offset, or the painted screen."""
        if from_offset is None or (self._max_behind is not None and not await self._can_resume(from_offset)):
            return await self._paint(self._scrollback)
        if from_offset > self._source.size:
            raise invalid(f"from_offset {from_offset} is past the end, {self._source.size}", field="from_offset")
        self._raw, self._steps = from_offset, self._source.step_count()
        return self._begin(b"")

    def is_outdated(self) -> bool:
        """Return whether the screen is to be painted again: the terminal was resized or replaced, or too much output waits."""
        if self._max_behind is None:
            return False
        late = self._source.end - self._raw > self._max_behind and asyncio.get_running_loop().time() >= self._next_paint
        return late or self._source.step_count() != self._steps

    async def paint_again(self) -> WatchItem:
        """Paint the screen, and set the earliest time of the next painting: a flood would leave no time for other calls.

        After much output the lines above the screen are not painted: in a flood they would cost more than the screen.
        """
        loop = asyncio.get_running_loop()
        started, behind = loop.time(), self._source.end - self._raw
        scrollback = self._scrollback if behind <= (self._max_behind or 0) else 0
        while (item := await self._try_paint(scrollback, started + _PAINT_TIMEOUT_S)) is None:
            pass
        self._next_paint = loop.time() + max(2 * (loop.time() - started), _PAINT_INTERVAL_S)
        return item

    async def _try_paint(self, scrollback: int, deadline: float) -> WatchItem | None:
        """Return None if the screen is too far behind the output: the next attempt continues to draw it.

        Raises:
            PtyctlError: BUSY if it is still behind at the deadline.
        """
        try:
            return await self._paint(scrollback)
        except PtyctlError as error:
            if error.code is not ErrorCode.BUSY or asyncio.get_running_loop().time() >= deadline:
                raise
            return None

    async def _paint(self, scrollback: int) -> WatchItem:
        """Return an item that paints the screen with lines above it, and continue from there. Raises PtyctlError BUSY."""
        async with self._screen.current() as replay:
            self._raw, self._steps = replay.raw, replay.step
            cells = replay.cells + scrollback * replay.model.cols
            painted = await run_for(cells, partial(replay.model.serialize, scrollback))
        return self._begin(painted)

    async def _can_resume(self, offset: int) -> bool:
        """Return whether the terminal of an earlier watch, which had all output up to an offset, can continue there."""
        assert self._max_behind is not None
        if not 0 <= self._source.end - offset <= self._max_behind or await self._source.changed_at(offset):
            return False
        before = TerminalSanitizer()
        before.feed(self._source.read(max(offset - 2 * MAX_SEQUENCE_BYTES, 0), offset))
        return not before.held

    def _begin(self, painted: bytes) -> WatchItem:
        self._last_state = self._current_state()
        return WatchItem(kind="begin", raw_offset=self._raw, data_b64=b64encode(painted).decode(), **self._terminal())

    def next(self) -> WatchItem | None:
        """Return the next item, or None if there is nothing new."""
        state = self._current_state()
        if state != self._last_state or self._is_tick_due():
            self._last_state = state
            return WatchItem(kind="terminal", **self._terminal())
        return self._next_output() or self._next_event()

    def next_check(self) -> float | None:
        """Return when there may be a next item without a signal: the lease expires, or a tick is due."""
        lease = self._session.lease()
        return min((at for at in (lease.expires_at if lease else None, self._next_tick) if at is not None), default=None)

    def _is_tick_due(self) -> bool:
        return self._next_tick is not None and asyncio.get_running_loop().time() >= self._next_tick

    def _current_state(self) -> tuple[object, ...]:
        session = self._session
        return session.cols, session.rows, session.state, session.mode, session.lease()

    def _terminal(self) -> dict[str, Any]:
        session, lease, now = self._session, self._session.lease(), asyncio.get_running_loop().time()
        self._next_tick = None if self._tick_s is None else now + self._tick_s
        return {
            "cols": session.cols,
            "rows": session.rows,
            "state": session.state,
            "mode": session.mode,
            "lock_holder": lease.holder.task_id if lease else None,
            "lock_principal": lease.holder.principal if lease else None,
            "lock_expires_at": epoch_ms(lease.expires_at) if lease else None,
            "ts": None if self._tick_s is None else epoch_ms(now),  # clients of earlier versions know neither
        }

    def _next_output(self) -> WatchItem | None:
        end = self._source.end
        if self._raw >= end:
            return None
        data = self._source.read(self._raw, min(end, self._raw + PIECE_BYTES))
        shown = self._source.shown(self._raw, data)
        self._raw = self._raw + len(data) if data else self._source.next_readable(self._raw)  # unpersisted output is skipped
        return WatchItem(kind="output", raw_offset=self._raw, data_b64=b64encode(shown).decode())

    def _next_event(self) -> WatchItem | None:
        if not self._pending_events:
            self._pending_events, self._event = self._event_log.since(self._event)
        return WatchItem(kind="event", event=self._pending_events.pop(0)) if self._pending_events else None

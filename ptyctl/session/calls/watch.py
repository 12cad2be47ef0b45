"""A session as it happens, for those who look on: each at a pace of its own, and none holds another back."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator
from typing import Any

from ptyctl.api.errors import invalid
from ptyctl.api.operator import WatchItem
from ptyctl.session.clock import epoch_ms
from ptyctl.session.session import Session

#: What one item carries at most.
PIECE_BYTES = 64 * 1024


async def watch(session: Session, from_offset: int | None = None) -> AsyncGenerator[WatchItem, None]:
    """Yields what happens (see WatchItem), and ends when the session is closed and all was told.

    Raises:
        PtyctlError: INVALID_ARGUMENT for an offset behind the end; BUSY where the screen is too far behind.
    """
    watcher = _Watcher(session)
    unsubscribe = session.stream.subscribe_output(lambda raw, data: session.signal.notify())
    try:
        yield await watcher.begin(from_offset)
        while True:
            if (item := watcher.next()) is not None:
                yield item
            elif session.state == "closed":
                yield WatchItem(kind="end", raw_offset=session.stream.raw_size)
                return
            else:
                await session.signal.wait(watcher.due())
    finally:
        unsubscribe()


class _Watcher:
    """What one who looks on was told."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._source = session.display.source
        self._raw = 0
        self._event = session.events.cursor
        self._waiting: list[dict[str, Any]] = []
        self._told: tuple[object, ...] = ()

    async def begin(self, from_offset: int | None) -> WatchItem:
        """Where it begins: at an offset, or behind the present screen."""
        if from_offset is None:
            async with self._session.display.screen.current() as fold:
                self._raw, painted = fold.raw, fold.model.serialize()
        elif from_offset > self._source.end:
            raise invalid(f"from_offset {from_offset} is past the end, {self._source.end}", field="from_offset")
        else:
            self._raw, painted = from_offset, b""
        self._told = self._state()
        return WatchItem(kind="begin", raw_offset=self._raw, data_b64=b64encode(painted).decode(), **self._terminal())

    def next(self) -> WatchItem | None:
        """What was not told yet, or None."""
        if (state := self._state()) != self._told:
            self._told = state
            return WatchItem(kind="terminal", **self._terminal())
        return self._output() or self._happened()

    def due(self) -> float | None:
        """When something changes by itself, on the loop's clock: a lease runs out."""
        lease = self._session.lease()
        return lease.expires_at if lease is not None else None

    def _state(self) -> tuple[object, ...]:
        session = self._session
        return session.cols, session.rows, session.state, session.runs.mode, session.lease()

    def _terminal(self) -> dict[str, Any]:
        session, lease = self._session, self._session.lease()
        return {
            "cols": session.cols,
            "rows": session.rows,
            "state": session.state,
            "mode": session.runs.mode,
            "lock_holder": lease.holder if lease else None,
            "lock_expires_at": epoch_ms(lease.expires_at) if lease else None,
        }

    def _output(self) -> WatchItem | None:
        end = self._source.end
        if self._raw >= end:
            return None
        data = self._source.read(self._raw, min(end, self._raw + PIECE_BYTES))
        self._raw = self._raw + len(data) if data else self._source.next_readable(self._raw)  # what was not kept is not shown
        return WatchItem(kind="output", raw_offset=self._raw, data_b64=b64encode(data).decode())

    def _happened(self) -> WatchItem | None:
        if not self._waiting:
            self._waiting, self._event = self._session.events.since(self._event)
        return WatchItem(kind="event", event=self._waiting.pop(0)) if self._waiting else None

"""A session as it happens, for those who look on: each at a pace of its own, and none holds another back."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator
from typing import Any

from ptyctl.api.watch import Watched

from .meta import epoch_ms
from .session import Session

#: What one item carries at most.
_PIECE_BYTES = 64 * 1024


async def watch(session: Session, from_offset: int | None = None) -> AsyncGenerator[Watched, None]:
    """Yields what happens. It ends when the session is closed and all was told; see Watched.

    Raises:
        PtyctlError: INVALID_ARGUMENT for an offset behind the end.
    """
    watcher = Watcher(session)
    session.stream.watchers.append(session.changes.beat)
    try:
        yield await watcher.begin(from_offset)
        while True:
            if (item := watcher.next()) is not None:
                yield item
            elif session.state == "closed":
                yield Watched(kind="end")
                return
            else:
                await session.changes.wait(watcher.due())
    finally:
        session.stream.watchers.remove(session.changes.beat)


class Watcher:
    """Where one who looks on stands."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._raw = session.stream.normaliser.raw
        self._events = session.events.cursor
        self._told: dict[str, Any] = {}

    def next(self) -> Watched | None:
        """What was not told yet, or None. A change of size stands before the output that was made for it."""
        state = self._state()
        if state != self._told:
            self._told = state
            return Watched(kind="terminal", **state)
        if (output := self._output()) is not None:
            return output
        return self._event()

    def due(self) -> float | None:
        """When something changes by itself: a lease runs out."""
        lease = self._session.lease()
        return lease.expires_at if lease is not None else None

"""What all subscribers of one principal share.

Its list of sessions and its approval requests are fetched once for all of them, and its thumbnails share a rate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from ptyctl.api.approvals import ApprovalsRequest
from ptyctl.api.controller import Controller
from ptyctl.api.errors import PtyctlError
from ptyctl.api.session import SessionRequest
from ptyctl.core.principal import Principal
from ptyctl.internal_error import internal_error
from ptyctl.session.clients import current_principal

#: Time between two fetches of the list of sessions (seconds).
SESSIONS_INTERVAL_S = 1.0
#: Time between two screens of a thumbnail (seconds), and of all thumbnails together.
THUMBNAIL_INTERVAL_S = 0.5
SCREEN_INTERVAL_S = 0.02
#: How long a watch of the approval requests waits for a change.
_APPROVALS_WAIT_MS = 55_000
#: Number of approval requests that a new subscriber gets.
_MAX_APPROVALS = 1000

Entries = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class FeedState:
    """The entries by id; one that has not changed is the same object as before. `fields` describe all of them."""

    entries: Entries
    fields: Mapping[str, Any] = field(default_factory=dict)


class Feed:
    """The last state of a source, and a signal for each change. The source is read while there is a subscriber."""

    def __init__(self, states: Callable[[], AsyncGenerator[FeedState, None]]) -> None:
        self._states = states
        self._state: FeedState | None = None
        self._error: PtyctlError | None = None
        self._changed = asyncio.Event()
        self._subscribers = 0
        self._task: asyncio.Task[None] | None = None

    async def follow(self) -> AsyncGenerator[FeedState, None]:
        """Yield the current state, and the newest one after each change. Raises the PtyctlError of the source."""
        self._subscribers += 1
        if self._task is None:
            self._state, self._error = None, None
            self._task = asyncio.create_task(self._read(), name="web feed")
        seen: FeedState | None = None
        try:
            while True:
                if self._error is not None:
                    raise self._error
                if self._state is not None and self._state is not seen:
                    seen = self._state
                    yield seen
                else:
                    await self._changed.wait()
        finally:
            self._subscribers -= 1
            if not self._subscribers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _read(self) -> None:
        try:
            async with aclosing(self._states()) as states:
                async for state in states:
                    if self._state is None or (state.entries, state.fields) != (self._state.entries, self._state.fields):
                        self._state = _reuse(state, self._state)
                        self._signal()
        except Exception as error:  # noqa: BLE001 - a bug: the subscribers get it, and the next one begins again
            self._error = error if isinstance(error, PtyctlError) else internal_error("web feed", error)
            self._task = None
            self._signal()

    def _signal(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Feeds:
    """The feeds of one principal."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.sessions = Feed(self._list_sessions)
        self.approvals = Feed(self._watch_approvals)
        self._thumbnails = 0

    @contextmanager
    def thumbnail(self) -> Iterator[Callable[[], float]]:
        """Count a thumbnail; yield a function that returns the time between two of its screens (seconds)."""
        self._thumbnails += 1
        try:
            yield lambda: max(THUMBNAIL_INTERVAL_S, self._thumbnails * SCREEN_INTERVAL_S)
        finally:
            self._thumbnails -= 1

    async def _list_sessions(self) -> AsyncGenerator[FeedState, None]:
        while True:
            reply = await self._controller.session(SessionRequest(action="list", details=True))
            yield FeedState({entry.session_id: entry.payload() for entry in reply.sessions or ()})
            await asyncio.sleep(SESSIONS_INTERVAL_S)

    async def _watch_approvals(self) -> AsyncGenerator[FeedState, None]:
        request = ApprovalsRequest(action="watch")
        entries: dict[str, Mapping[str, Any]] = {}
        while True:
            reply = await self._controller.approvals(request)
            for entry in reply.approvals or ():
                entries.pop(entry.approval_id, None)
                entries[entry.approval_id] = entry.payload()
            entries = dict(list(entries.items())[-_MAX_APPROVALS:])
            yield FeedState(dict(entries), {"answerable": reply.answerable})
            request = ApprovalsRequest(action="watch", since=reply.cursor, timeout_ms=_APPROVALS_WAIT_MS)


#: Kept by the connections that use them.
_feeds: WeakKeyDictionary[Controller, WeakValueDictionary[Principal, Feeds]] = WeakKeyDictionary()


def feeds_of_caller(controller: Controller) -> Feeds:
    """Return the feeds of the current principal. The first subscriber's client makes the calls."""
    return _feeds.setdefault(controller, WeakValueDictionary()).setdefault(current_principal(), Feeds(controller))


def _reuse(state: FeedState, last: FeedState | None) -> FeedState:
    """Return the state with the entries of the last one, where they are equal."""
    before: Entries = {} if last is None else last.entries
    entries = {key: before[key] if before.get(key) == entry else entry for key, entry in state.entries.items()}
    return FeedState(entries, state.fields)

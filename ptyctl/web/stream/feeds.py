"""Data that all subscribers of one principal share.

Its list of sessions and its approval requests are fetched once for all of them, its thumbnails share a rate, and one of its
windows uses its lock of a session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from ptyctl.api.approvals import ApprovalsRequest
from ptyctl.api.controller import Controller
from ptyctl.api.errors import PtyctlError
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.session import SessionEntry, SessionRequest
from ptyctl.core.principal import Principal
from ptyctl.internal_error import internal_error
from ptyctl.session.clients import current_principal

#: Time between two fetches of the list of sessions (seconds).
SESSIONS_INTERVAL_S = 1.0
#: Minimum delay between two fetches, as a multiple of the duration of a fetch: the list of a large fleet takes seconds.
_REST = 3
#: Number of entries that are handled before other calls run, in about 5 ms: a fleet can have 100,000 sessions.
BATCH = 200
#: Time between two screens of a thumbnail (seconds), and of all thumbnails together.
THUMBNAIL_INTERVAL_S = 0.5
SCREEN_INTERVAL_S = 0.02
#: Number of approval requests that a new subscriber gets.
_MAX_APPROVALS = 1000

Entries = dict[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class FeedState:
    """The entries by id. An unchanged entry is the same object as in the previous state. `fields` apply to all entries."""

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
                        self._state = state
                        self._signal()
        except Exception as error:  # noqa: BLE001 - a bug: the subscribers get it, and the next one begins again
            self._error = error if isinstance(error, PtyctlError) else internal_error("web feed", error)
            self._task = None
            self._signal()

    def _signal(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Window(Protocol):
    """A page with a terminal. A principal has one lock of a session for all its windows, and one of them uses it."""

    def uses(self, session_id: str) -> bool:
        """Return whether this window uses the lock: it renews the lock, and sizes the terminal."""
        ...

    def displace(self, session_id: str) -> None:
        """Leave the lock to another window."""
        ...


class Feeds:
    """The feeds of one principal, and its windows."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.sessions = Feed(self._list_sessions)
        self.approvals = Feed(self._watch_approvals)
        self._thumbnails = 0
        self._windows: WeakSet[Window] = WeakSet()

    def add_window(self, window: Window) -> None:
        """Add a connected window."""
        self._windows.add(window)

    def remove_window(self, window: Window) -> None:
        """Remove a window whose connection has ended."""
        self._windows.discard(window)

    def other_windows(self, window: Window) -> list[Window]:
        """Return all windows but one."""
        return [other for other in self._windows if other is not window]

    @contextmanager
    def thumbnail(self) -> Iterator[Callable[[], float]]:
        """Count a thumbnail; yield a function that returns the time between two of its screens (seconds)."""
        self._thumbnails += 1
        try:
            yield lambda: max(THUMBNAIL_INTERVAL_S, self._thumbnails * SCREEN_INTERVAL_S)
        finally:
            self._thumbnails -= 1

    async def _list_sessions(self) -> AsyncGenerator[FeedState, None]:
        loop, known = asyncio.get_running_loop(), Entries()
        while True:
            began = loop.time()
            reply = await self._controller.session(SessionRequest(action="list", details=True))
            sessions, reply.sessions = reply.sessions or [], None
            entries = await _payloads(sessions, known)
            yield FeedState(entries, {"notices": reply.notices or []})
            known = entries
            await asyncio.sleep(max(SESSIONS_INTERVAL_S, _REST * (loop.time() - began)))

    async def _watch_approvals(self) -> AsyncGenerator[FeedState, None]:
        request = ApprovalsRequest(action="watch")
        entries = Entries()
        while True:
            reply = await self._controller.approvals(request)
            for entry in reply.approvals or ():
                entries[entry.approval_id] = _reuse(entry.payload(), entries.pop(entry.approval_id, None))
            entries = dict(list(entries.items())[-_MAX_APPROVALS:])
            yield FeedState(dict(entries), {"answerable": reply.answerable})
            request = ApprovalsRequest(action="watch", since=reply.cursor, timeout_ms=MAX_WAIT_MS)


#: Kept by the connections that use them.
_feeds: WeakKeyDictionary[Controller, WeakValueDictionary[Principal, Feeds]] = WeakKeyDictionary()


def feeds_of_caller(controller: Controller) -> Feeds:
    """Return the feeds of the current principal. The first subscriber's client makes the calls."""
    return _feeds.setdefault(controller, WeakValueDictionary()).setdefault(current_principal(), Feeds(controller))


async def _payloads(sessions: list[SessionEntry], known: Entries) -> Entries:
    """Return the entries of sessions by id, and empty the list. An unchanged entry is the same object as before.

    Returns `known` if nothing has changed, so that the states need no comparison of all entries.

    Between batches other calls run, and the memory of the list is freed piece by piece.
    """
    entries: dict[str, Mapping[str, Any]] = {}
    has_changed = False
    sessions.reverse()
    while sessions:
        entry = sessions.pop()
        before = known.get(entry.session_id)
        entries[entry.session_id] = payload = _reuse(entry.payload(), before)
        has_changed = has_changed or payload is not before
        if len(entries) % BATCH == 0:
            await asyncio.sleep(0)
    return entries if has_changed or len(entries) != len(known) else known


def _reuse(entry: Mapping[str, Any], before: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the entry before, unless the entry differs in more than the time since its node was seen."""
    if before is not None and (silent_s := entry.get("unreachable_s")) is not None and "unreachable_s" in before:
        return before if {**before, "unreachable_s": silent_s} == entry else entry
    return before if before is not None and before == entry else entry

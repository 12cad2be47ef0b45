"""The sessions of one controller, found by id, console device or conversation."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.api.session import SessionEntry
from ptyctl.cancellation import cancel_and_wait
from ptyctl.core.limits import Limit
from ptyctl.core.states import SessionState
from ptyctl.session.clients import Client, current_client
from ptyctl.session.session import Session

#: Number of read-only sessions of earlier processes in memory. Older ones are restored from disk on demand.
MAX_HISTORY = 200
#: How long a call waits for an attempt to connect a session. The attempt continues after it.
OPEN_WAIT_S = MAX_WAIT_MS / 1000


class SessionRegistry:
    """Holds the sessions and enforces the limit on their number.

    A session of an earlier process is read-only history until a request needs more. Then this process owns its files, and the
    session counts towards the limit.
    """

    def __init__(self, limits: Mapping[str, Limit], load: Callable[[str, bool], Awaitable[Session | None]]) -> None:
        """Create the registry. `load` restores a session from disk, or returns None; see `SessionFactory.restore`."""
        self._limit, self._client_limit = limits["max_sessions"], limits["max_client_sessions"]
        self._load = load
        self._loads: dict[str, asyncio.Task[Session | None]] = {}
        self._reserved: list[Client | None] = []
        self._openers: WeakKeyDictionary[Session, Client] = WeakKeyDictionary()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        #: Connection attempts that continue after the reply to their callers, with the id of their session.
        self._attempts: dict[asyncio.Task[Any], str] = {}
        self._open_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def open_lock(self, device_id: str) -> asyncio.Lock:
        """Return the lock that serializes the opens and reconnects of one console."""
        return self._open_locks[device_id]

    def known(self) -> list[Session]:
        """Return every session in memory, including closed ones."""
        return list(self._sessions.values())

    def live(self) -> list[Session]:
        """Return the sessions in memory that are not closed."""
        return [session for session in self._sessions.values() if session.state != "closed"]

    def state(self, session: Session) -> SessionState:
        """Return the state that clients see: `opening` while an attempt to connect the session continues."""
        return "opening" if session.session_id in self._attempts.values() else session.state

    def entries(self, *, details: bool = False) -> list[SessionEntry]:
        """Return the rows of the live sessions in a list."""
        return [session.entry(details=details).model_copy(update={"state": self.state(session)}) for session in self.live()]

    def storage_alarms(self) -> list[str]:
        """Return the alarms of the live sessions about their files."""
        return [alarm for session in self.live() if (alarm := session.storage_alarm()) is not None]

    async def ends_in_time(self, attempt: asyncio.Task[Any]) -> bool:
        """Wait for an attempt to connect a session, at most OPEN_WAIT_S; whether it has ended."""
        done, _ = await asyncio.wait({attempt}, timeout=OPEN_WAIT_S)
        return bool(done)

    async def attempt_ends(self, session_id: str) -> None:
        """Wait until no attempt to connect a session continues."""
        if attempts := [attempt for attempt, connected in self._attempts.items() if connected == session_id]:
            await asyncio.wait(attempts)

    def let_continue(self, session: Session, attempt: asyncio.Task[Any]) -> None:
        """Let an attempt to connect a session continue after its caller is answered."""

        def finished(done: asyncio.Task[Any]) -> None:
            del self._attempts[attempt]
            done.cancelled() or done.exception()  # mark the exception as retrieved

        if self.get(session.session_id) is None:
            self.add(session)
        self._attempts[attempt] = session.session_id
        attempt.add_done_callback(finished)

    async def cancel_attempts(self) -> None:
        """Cancel the attempts to connect sessions."""
        await cancel_and_wait(*self._attempts)

    async def find(self, session_id: str | None, *, hold: bool = False) -> Session:
        """Return a session in any state, from memory or from disk, to read its history.

        Args:
            hold: let this process hold a session that is not closed, even above the session limit.

        Raises:
            PtyctlError: NOT_FOUND; POLICY_DENIED, BUSY or IO_ERROR for a session on disk that cannot be read.
        """
        session_id = session_id or ""
        while True:
            session = self._sessions.get(session_id)
            # a session is lost, not closed, if it could not be stored that it was closed
            closed = session is not None and session.state == "closed" and session.stored
            if session is not None and (session.held or closed or not (hold or _changed_on_disk(session))):
                return session
            if await asyncio.shield(self._loads.get(session_id) or self._start_load(session_id, hold=hold)) is None:
                raise no_session(session_id)

    async def find_live(self, session_id: str | None) -> Session:
        """Return a session that is not closed and is held by this process.

        Raises:
            PtyctlError: as `find`; ALREADY_CLOSED; LIMIT_EXCEEDED if holding one from disk would exceed the limit.
        """
        before = self._sessions.get(session_id or "")
        session = await self.find(session_id, hold=True)
        if session.state == "closed":
            raise session.already_closed()
        if session is not before and self._held_count() > self._limit.maximum:
            session.release_files()
            self._limit.check(self._held_count())
        return session

    def get(self, session_id: str) -> Session | None:
        """Return a session in memory."""
        return self._sessions.get(session_id)

    def console(self, device_id: str) -> Session | None:
        """Return the live session of a console."""
        return next((session for session in self.live() if session.spec.device_id == device_id), None)

    def conversation(self, conversation_id: str, client_id: str) -> Session | None:
        """Return the newest session of a conversation, in any state."""
        key = (conversation_id, client_id)
        sessions = (session for session in self.known() if (session.spec.conversation_id, session.spec.client_id) == key)
        return max(sessions, key=lambda session: session.created_at, default=None)  # loaded in any order

    def reserve(self) -> None:
        """Reserve room for one more session of the current client.

        Raises:
            PtyctlError: LIMIT_EXCEEDED.
        """
        client = current_client()
        self._limit.check(self._held_count() + len(self._reserved))
        if client is not None:
            self._client_limit.check(self._opened_by(client) + self._reserved.count(client))
        self._reserved.append(client)

    def release(self) -> None:
        """Release the current client's reservation after the session was added or could not be opened."""
        self._reserved.remove(current_client())

    def add_opened(self, session: Session) -> None:
        """Add a session that the current client has opened."""
        if (client := current_client()) is not None:
            self._openers[session] = client
        self.add(session)

    def in_use(self) -> dict[str, int]:
        """Return the use of each limit by name. Sessions of disconnected clients count for no client."""
        openers = [self._openers.get(session) for session in self.live() if session.held]
        of_clients = Counter(client for client in openers if client is not None and not client.left)
        return {self._limit.name: len(openers), self._client_limit.name: max(of_clients.values(), default=0)}

    def add(self, session: Session) -> None:
        self._sessions[session.session_id] = session
        history = [key for key, other in self._sessions.items() if not other.held]  # a session that is closing is still held
        for key in history[: max(len(history) - MAX_HISTORY, 0)]:
            del self._sessions[key]

    def forget(self, session_id: str) -> None:
        """Drop a session whose files were removed."""
        self._sessions.pop(session_id, None)

    async def finish_loads(self) -> None:
        """Wait for the sessions that are being restored."""
        await asyncio.gather(*self._loads.values(), return_exceptions=True)

    async def load_all(self, loads: Mapping[str, Coroutine[Any, Any, Session | None]], wait_s: float) -> None:
        """Run coroutines that add sessions, by their ids, and wait for them for a time. Calls to a session wait for its own."""
        tasks = {self._load_in_task(session_id, load) for session_id, load in loads.items()}
        if tasks:
            await asyncio.wait(tasks, timeout=wait_s)

    def _held_count(self) -> int:
        return sum(session.held for session in self.live())

    def _opened_by(self, client: Client) -> int:
        return sum(session.held and self._openers.get(session) is client for session in self.live())

    def _start_load(self, session_id: str, *, hold: bool) -> asyncio.Task[Session | None]:
        """Start the task that all concurrent callers wait for. It finishes even if they are cancelled."""
        return self._load_in_task(session_id, self._load_and_add(session_id, hold=hold))

    def _load_in_task(self, session_id: str, load: Coroutine[Any, Any, Session | None]) -> asyncio.Task[Session | None]:
        task = asyncio.create_task(load, name=f"restore {session_id}")
        self._loads[session_id] = task
        task.add_done_callback(partial(self._loaded, session_id))
        return task

    def _loaded(self, session_id: str, task: asyncio.Task[Session | None]) -> None:
        if self._loads.get(session_id) is task:
            del self._loads[session_id]
        task.cancelled() or task.exception()  # mark the exception as retrieved

    async def _load_and_add(self, session_id: str, *, hold: bool) -> Session | None:
        session = await self._load(session_id, hold) if session_id else None
        if session is not None:
            self.add(session)
        return session


def no_session(session_id: str) -> PtyctlError:
    """Return NOT_FOUND for a session."""
    message = f"there is no session {session_id}"
    return PtyctlError(ErrorCode.NOT_FOUND, message, {"session_id": session_id}, hint=NextStep.LIST_SESSIONS)


def _changed_on_disk(session: Session) -> bool:
    """Return whether another server has written to the files since this process released them."""
    return session.stream.raw_size_on_disk() != session.stream.raw_kept

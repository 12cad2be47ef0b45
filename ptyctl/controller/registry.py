"""All sessions of one controller: found by id, and consoles by the device's id too."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from typing import Protocol

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.session.session import Session

#: Sessions of which only the history is there: so many are remembered, and all others are found on disk.
KEPT_HISTORY = 200


class Recall(Protocol):
    """Looks on disk for a session that is not here; see `recovered`."""

    async def __call__(self, session_id: str, *, hold: bool) -> Session | None: ...


async def _nowhere(session_id: str, *, hold: bool) -> Session | None:
    return None


class Registry:
    """`opening` serialises the opens of one device: they make one connection. `recall` looks on disk for what is not here.

    What an earlier server has left is history until somebody wants more than to read it: then it is held, and counts.
    """

    def __init__(self, max_sessions: int, recall: Recall = _nowhere) -> None:
        self.opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._max = max_sessions
        self._recall = recall
        self._recalls: dict[str, asyncio.Task[Session | None]] = {}
        self._pending = 0
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def known(self) -> list[Session]:
        """All that can be found by id: also those whose end is under way, or past."""
        return list(self._sessions.values())

    def live(self) -> list[Session]:
        return [session for session in self._sessions.values() if session.state != "closed"]

    async def find(self, session_id: str | None) -> Session:
        """A session that is or was here, or that an earlier server has left on disk, to read its history.

        Raises:
            PtyctlError: NOT_FOUND; POLICY_DENIED, BUSY or IO_ERROR for one on disk that may or can not be opened.
        """
        return await self._found(session_id or "", hold=False)

    async def find_live(self, session_id: str | None) -> Session:
        """A session that is not closed, and held by this server.

        Raises:
            PtyctlError: as `find`; ALREADY_CLOSED; LIMIT_EXCEEDED for one on disk that would be one too many.
        """
        before = self._sessions.get(session_id or "")
        session = await self.find_held(session_id)
        if session.state == "closed":
            raise session.already_closed()
        if session is not before and self._held() > self._max:
            session.release_files()
            raise self._too_many()
        return session

    async def find_held(self, session_id: str | None) -> Session:
        """As `find`, and what is not closed is held by this server, whatever the limit."""
        return await self._found(session_id or "", hold=True)

    def console(self, device_id: str) -> Session | None:
        return next((session for session in self.live() if session.spec.device_id == device_id), None)

    def conversation(self, conversation_id: str, client_id: str) -> Session | None:
        """Its terminal, also a closed one; the last, where an earlier server has left others."""
        key = (conversation_id, client_id)
        sessions = reversed(self._sessions.values())
        return next((session for session in sessions if (session.spec.conversation_id, session.spec.client_id) == key), None)

    def reserve(self) -> None:
        """Room for one more.

        Raises:
            PtyctlError: LIMIT_EXCEEDED.
        """
        if self._held() + self._pending >= self._max:
            raise self._too_many()
        self._pending += 1

    def release(self) -> None:
        """A reserved place was used, or is not needed."""
        self._pending -= 1

    def add(self, session: Session) -> None:
        self._sessions[session.session_id] = session
        history = [key for key, other in self._sessions.items() if not other.held]  # one that is closing still is
        for key in history[: max(len(history) - KEPT_HISTORY, 0)]:
            del self._sessions[key]

    def forget(self, session_id: str) -> None:
        """Its history is gone."""
        self._sessions.pop(session_id, None)

    async def settle(self) -> None:
        """Waits for what is being read from disk."""
        await asyncio.gather(*self._recalls.values(), return_exceptions=True)

    def _held(self) -> int:
        return sum(session.held for session in self.live())

    def _too_many(self) -> PtyctlError:
        return PtyctlError(
            ErrorCode.LIMIT_EXCEEDED,
            f"{self._held()} sessions are open, and {self._max} is the limit (max_sessions); close one first",
            {"max_sessions": self._max},
        )

    async def _found(self, session_id: str, *, hold: bool) -> Session:
        while True:
            session = self._sessions.get(session_id)
            if session is not None and _serves(session, hold=hold):
                return session
            found = await asyncio.shield(self._recalls.get(session_id) or self._begin_recall(session_id, hold=hold))
            if found is None:
                raise PtyctlError(
                    ErrorCode.NOT_FOUND,
                    f"no session {session_id}; ptyctl_session action=list names those that are open",
                    {"session_id": session_id},
                )

    def _begin_recall(self, session_id: str, *, hold: bool) -> asyncio.Task[Session | None]:
        """All who ask for a session meanwhile wait for the one task, and it goes on without them."""
        task = asyncio.create_task(self._recall_and_add(session_id, hold=hold), name=f"recall {session_id}")
        self._recalls[session_id] = task
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # it was told to whoever waited
        return task

    async def _recall_and_add(self, session_id: str, *, hold: bool) -> Session | None:
        try:
            session = await self._recall(session_id, hold=hold) if session_id else None
            if session is not None:
                self.add(session)
            return session
        finally:
            del self._recalls[session_id]


def _serves(session: Session, *, hold: bool) -> bool:
    """Whether it is as it stands on disk, and held where that is wanted."""
    return session.held or session.state == "closed" or not (hold or _changed(session))


def _changed(session: Session) -> bool:
    """Whether another server has gone on with the files since they were let go."""
    return session.stream.raw_size_on_disk() != session.stream.raw_kept

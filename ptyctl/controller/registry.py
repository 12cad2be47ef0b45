"""All sessions of one controller: found by id, and consoles by the device's id too."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.session.session import Session

#: Closed sessions that can still be read from disk by their id.
KEPT_CLOSED = 1000


class Registry:
    """`opening` serialises the opens of one device: they make one connection. `recall` looks on disk for what is not here."""

    def __init__(self, max_sessions: int, recall: Callable[[str], Session | None] = lambda session_id: None) -> None:
        self.opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._max = max_sessions
        self._recall = recall
        self._pending = 0
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def known(self) -> list[Session]:
        """All that can be found by id: also those whose end is under way, or past."""
        return list(self._sessions.values())

    def live(self) -> list[Session]:
        return [session for session in self._sessions.values() if session.state != "closed"]

    def find(self, session_id: str | None) -> Session:
        """A session that is or was here, or that an earlier server has left on disk.

        Raises:
            PtyctlError: NOT_FOUND; POLICY_DENIED, BUSY or IO_ERROR for one on disk that may or can not be opened.
        """
        session = self._sessions.get(session_id or "")
        if session is None and session_id and (session := self._recall(session_id)) is not None:
            self.add(session)
        if session is None:
            raise PtyctlError(
                ErrorCode.NOT_FOUND, f"no session {session_id}; ptyctl_session action=list names those that are open"
            )
        return session

    def find_live(self, session_id: str | None) -> Session:
        """A session that is not closed.

        Raises:
            PtyctlError: NOT_FOUND, ALREADY_CLOSED.
        """
        session = self.find(session_id)
        if session.state == "closed":
            raise session.already_closed()
        return session

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
        live = len(self.live())
        if live + self._pending >= self._max:
            raise PtyctlError(
                ErrorCode.LIMIT_EXCEEDED,
                f"{live} sessions are open, and {self._max} is the limit (max_sessions); close one first",
                {"max_sessions": self._max},
            )
        self._pending += 1

    def release(self) -> None:
        """A reserved place was used, or is not needed."""
        self._pending -= 1

    def add(self, session: Session) -> None:
        self._sessions[session.session_id] = session
        closed = [key for key, other in self._sessions.items() if other.state == "closed"]
        for key in closed[: max(len(closed) - KEPT_CLOSED, 0)]:
            del self._sessions[key]

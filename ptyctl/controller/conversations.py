"""A conversation's own terminal: a local shell for each (conversation_id, client_id), made on first use (CONTRACTS)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.pty import PtyRequest
from ptyctl.api.session import SessionRequest
from ptyctl.session.calls.termination import first_prompt, restart
from ptyctl.session.session import Session
from ptyctl.session.spec import Spec

from .destinations import Destination
from .left import LeftSessions
from .opening import spec_of
from .registry import Registry

#: Why sessions are closed when their server ends.
SERVER_ENDED = "the server ended"
#: The user's own shell, as a terminal program starts it.
CONVERSATION = Destination(SessionRequest(action="open", protocol="local"))

Make = Callable[[Destination, Spec], Awaitable[Session]]


class Conversations:
    """Finds the terminal that a request means. `make` opens a session; `connect` connects one anew.

    After a restart a conversation finds its last terminal among those that are `left`. What a killed server left goes on there,
    in a new incarnation; what was closed when a server ended can be read, until the next command makes another.
    """

    def __init__(
        self, registry: Registry, make: Make, connect: Callable[[Session], Awaitable[None]], left: LeftSessions
    ) -> None:
        self._registry = registry
        self._left = left
        self._make = make
        self._connect = connect
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def find(self, request: PtyRequest) -> Session:
        """The terminal, open or closed, to read its history.

        Raises:
            PtyctlError: NOT_FOUND.
        """
        if request.session_id is not None:
            return await self._registry.find(request.session_id)
        assert request.conversation_id is not None  # the request was held against its rule
        session = await self._known(request.conversation_id, request.client_id)
        if session is None:
            raise PtyctlError(
                ErrorCode.NOT_FOUND,
                f"conversation {request.conversation_id} has no terminal for client {request.client_id} yet; "
                "the pty_exec tools and pty_send make it",
            )
        return session

    async def find_live(self, request: PtyRequest) -> Session:
        """A terminal that is not closed, and held by this server.

        Raises:
            PtyctlError: NOT_FOUND, ALREADY_CLOSED, BUSY, LIMIT_EXCEEDED.
        """
        session = await self.find(request) if request.session_id is None else None
        return await self._registry.find_live(session.session_id if session is not None else request.session_id)

    async def find_or_make(self, request: PtyRequest) -> Session:
        """A terminal that takes commands: a conversation's is made, or its shell started anew where it has ended.

        Raises:
            PtyctlError: NOT_FOUND, ALREADY_CLOSED; what kept a shell from starting.
        """
        if request.session_id is not None:
            return await self.find_live(request)
        assert request.conversation_id is not None
        async with self._lock(f"{request.conversation_id}\0{request.client_id}"):  # all who come first get the one
            known = await self._known(request.conversation_id, request.client_id)
            if known is None or known.closed_why == SERVER_ENDED:
                spec = dataclasses.replace(
                    spec_of(CONVERSATION), conversation_id=request.conversation_id, client_id=request.client_id
                )
                session = await self._make(CONVERSATION, spec)
                await first_prompt(session, 0)
        session = await self.find_live(request)
        if session.stream.ended is not None:
            async with self._lock(session.session_id):
                if session.stream.ended is not None and session.state in ("eof", "lost"):
                    why = f"restarted, since {session.stream.ended.message}"
                    await restart(session, self._connect, "session_restarted", why)
        return session

    async def reset(self, session: Session) -> int:
        """A new shell in the same session, whatever the old one does. Returns the cursor where it begins."""
        async with self._lock(session.session_id):
            if session.state == "closed":
                raise session.already_closed()
            return await restart(session, self._connect, "session_reset", "reset")

    async def _known(self, conversation_id: str, client_id: str) -> Session | None:
        session = self._registry.conversation(conversation_id, client_id)
        if session is not None:
            return session
        for session_id in await self._left.of_conversation(conversation_id, client_id):
            try:
                return await self._registry.find(session_id)
            except PtyctlError:
                continue  # another server has it, or it cannot be read
        return None

    def _lock(self, key: str) -> asyncio.Lock:
        """It lives as long as somebody uses it."""
        return self._locks.setdefault(key, asyncio.Lock())

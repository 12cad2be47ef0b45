"""A connection through a connection: a direct-tcpip channel of a jump host (RFC 4254 7.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncssh


class Tunnel:
    """What asyncssh may connect through. Unlike its own, it forgets no channel whose opening was cancelled.

    RFC 4254 cannot take back the request for a channel, and asyncssh leaves one that is granted too late open for as long
    as the jump host's connection lives. So the request goes on by itself, and what it yields is closed.
    """

    def __init__(self, connection: asyncssh.SSHClientConnection, label: str) -> None:
        self._connection = connection
        self.label = label
        self._abandoned: set[asyncio.Task[Any]] = set()

    async def create_connection(self, session_factory: Any, host: str, port: int) -> Any:
        """The channel and its session, as asyncssh asks for it."""
        opening = asyncio.ensure_future(self._connection.create_connection(session_factory, host, port))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._abandon(opening)
            raise

    def _abandon(self, opening: asyncio.Task[Any]) -> None:
        self._abandoned.add(opening)
        opening.add_done_callback(self._close_late)

    def _close_late(self, opening: asyncio.Task[Any]) -> None:
        self._abandoned.discard(opening)
        if not opening.cancelled() and opening.exception() is None:
            channel, _ = opening.result()
            channel.abort()

    async def settled(self) -> None:
        """Waits for the requests that were abandoned: once the connection is closed, none is left."""
        if self._abandoned:
            await asyncio.wait(self._abandoned)

"""Limits of HTTP connections: time to send a request's header, time to read a response, idle time, and number.

They hold before a client is authenticated: any user of the machine can connect to the port.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from asyncio.sslproto import SSLProtocol
from typing import Any

import h11
from starlette.types import Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from ptyctl.core.limits import LIMITS, Limit
from transports.process import share_of_descriptors

_LOG = logging.getLogger(__name__)

#: How long a client may take to send the header of a request (seconds). Idle connections are closed after 5 s (uvicorn).
HEADER_TIMEOUT_S = 10.0
#: How long a client may take for the TLS handshake (seconds).
TLS_HANDSHAKE_TIMEOUT_S = 5
#: How long a client may read nothing of the data that waits for it (seconds).
UNREAD_TIMEOUT_S = 30.0
#: How long a client may take to read the rest of a WebSocket that was closed (seconds).
CLOSE_TIMEOUT_S = 10.0
#: Fragments of a WebSocket message, which may be empty.
MAX_FRAGMENTS = 1024
#: Key in the state of a request: the names of tokens and logins that were used on its connection.
SEEN = "ptyctl.tokens"
#: Key in the state of a request: a function that closes its connection at once.
_ABORT = "ptyctl.abort"


class ConnectionLimits:
    """The connections of one server. Above the limit, the connection that is longest without a complete request is closed."""

    def __init__(self, limit: Limit = LIMITS["max_http_connections"]) -> None:
        self._maximum = share_of_descriptors(limit.maximum)
        self._open: set[LimitedProtocol | LimitedWebSocket] = set()
        #: Connections without a complete request in progress; the one that has waited longest is the first.
        self._waiting: dict[LimitedProtocol, None] = {}

    @property
    def in_use(self) -> int:
        """Number of open connections."""
        return len(self._open)

    def add(self, connection: LimitedProtocol) -> None:
        """Register a new connection; close another one, or this one, if there are too many."""
        self._open.add(connection)
        self._waiting[connection] = None
        if len(self._open) > self._maximum:
            _LOG.warning("too many HTTP connections", extra={"limit": self._maximum})
            oldest = next(waiting for waiting in self._waiting if not waiting.is_admitted_request())
            self.remove(oldest)
            oldest.abort()

    def add_upgraded(self, connection: LimitedWebSocket) -> None:
        """Register a WebSocket, in place of the HTTP connection that it was. It never waits for a header."""
        self._open.add(connection)

    def remove(self, connection: LimitedProtocol | LimitedWebSocket) -> None:
        self._open.discard(connection)
        if isinstance(connection, LimitedProtocol):
            self._waiting.pop(connection, None)

    def set_waiting(self, connection: LimitedProtocol, waiting: bool) -> None:
        """Record whether a connection waits for the header or the body of a request."""
        if not waiting:
            self._waiting.pop(connection, None)
        elif connection in self._open:
            self._waiting.setdefault(connection, None)


async def abort_connection(scope: Scope, receive: Receive) -> None:
    """Close the connection of a request whose response has begun and must not be completed."""
    scope["state"][_ABORT]()
    while (await receive())["type"] != "http.disconnect":
        pass


class _UnreadTimeout(asyncio.Protocol):
    """Closes a connection whose client does not read pending data."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _unread_timeout: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.cancel_unread_timeout()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_unread_timeout()

    def resume_writing(self) -> None:
        self.cancel_unread_timeout()
        super().resume_writing()

    def cancel_unread_timeout(self) -> None:
        if self._unread_timeout is not None:
            self._unread_timeout.cancel()
            self._unread_timeout = None

    def _set_unread_timeout(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._unread_timeout = self.loop.call_later(UNREAD_TIMEOUT_S, self._check_unread, unread)

    def _check_unread(self, before: int) -> None:
        """Close the connection if the client has read nothing since the last check."""
        if self.transport.get_write_buffer_size() >= before:
            self.transport.abort()
        else:
            self._set_unread_timeout()


class LimitedProtocol(_UnreadTimeout, H11Protocol):
    """uvicorn's protocol with a timeout for each header, and a limit of the connections."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self.app_state = {**self.app_state, SEEN: set(), _ABORT: self.abort}
        self._header_timeout: asyncio.TimerHandle | None = None
        #: Closes the connection, also before the end of the TLS handshake.
        self._accepted: asyncio.Transport | None = None
        self._upgraded = False

    def count(self, transport: asyncio.Transport) -> None:
        """Count the connection from its start on: before the TLS handshake, if it has one."""
        self._accepted = transport
        self._limits.add(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_header_timeout()
        if self._accepted is None:
            self.count(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.uncount()
        self._cancel_header_timeout()
        super().connection_lost(exc)

    def uncount(self) -> None:
        self._limits.remove(self)

    def handle_events(self) -> None:
        """Process received data; called for each piece of it, and after a response."""
        super().handle_events()
        if self._upgraded:
            self._cancel_header_timeout()
            self.cancel_unread_timeout()
            return
        waiting = self.cycle is None or self.cycle.response_complete
        self._limits.set_waiting(self, waiting or self.cycle.more_body)
        if not waiting:
            self._cancel_header_timeout()
        elif self._header_timeout is None and self.timeout_keep_alive_task is None:
            self._set_header_timeout()

    def is_admitted_request(self) -> bool:
        """Return whether a request is in progress, on a connection on which a token or a login was accepted."""
        return self.cycle is not None and not self.cycle.response_complete and bool(self.app_state[SEEN])

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Leave the connection to a WebSocket protocol."""
        self._limits.remove(self)
        self._upgraded = True
        super().handle_websocket_upgrade(event)

    def abort(self) -> None:
        """Close the connection at once."""
        assert self._accepted is not None
        self._accepted.abort()

    def _set_header_timeout(self) -> None:
        self._header_timeout = self.loop.call_later(HEADER_TIMEOUT_S, self.abort)

    def _cancel_header_timeout(self) -> None:
        if self._header_timeout is not None:
            self._header_timeout.cancel()
            self._header_timeout = None


class LimitedWebSocket(_UnreadTimeout, WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol, which counts as a connection too, and ends also if its client does not read."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._pongs: list[bytes] = []
        self._close_timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._limits.add_upgraded(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.remove(self)
        if self._close_timeout is not None:
            self._close_timeout.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.transport.write(b"".join(self._pongs))
        self._pongs = []

    def handle_ping(self) -> None:
        """Answer the pings that were received; while other data waits for the client, only the last one (RFC 6455, 5.5.3)."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self._pongs = [*self._pongs, *self.conn.data_to_send()][-1:]

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        else:
            self.transport.abort()

    def keepalive_timeout(self) -> None:
        """Close the connection of a client that does not answer: at once, as it may not read either."""
        super().keepalive_timeout()
        self.transport.abort()

    async def run_asgi(self) -> None:
        """Serve the connection. Data that the client does not read within some time after its end is discarded."""
        await super().run_asgi()
        self._close_timeout = self.loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)


class LimitedTls(SSLProtocol):
    """The TLS of a connection, which is counted while its handshake runs too."""

    def __init__(self, context: ssl.SSLContext, http: LimitedProtocol) -> None:
        waiter: Any = None
        timeout_s = TLS_HANDSHAKE_TIMEOUT_S
        super().__init__(http.loop, http, context, waiter, server_side=True, ssl_handshake_timeout=timeout_s)
        self._http = http

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self._http.count(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._http.uncount()
        super().connection_lost(exc)

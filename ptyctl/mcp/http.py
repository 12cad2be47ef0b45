"""The streamable HTTP transport: the endpoint `/mcp` for any number of clients."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import (
    MCP_SESSION_ID_HEADER,
    EventCallback,
    EventMessage,
    EventStore,
    StreamableHTTPServerTransport,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp_types import JSONRPCMessage
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ptyctl.controller.tokens import Token, Tokens
from ptyctl.core import json_lines
from ptyctl.core.limits import LIMITS, Limit
from ptyctl.http.bearer import BearerTokens, Record, TokenRefusedError
from ptyctl.http.connection_limits import ConnectionLimits
from ptyctl.http.origins import Origins
from ptyctl.http.server import MCP_PATH, serve
from ptyctl.session.clients import Client, current_principal, serving, serving_connection

from .message_stream import InvalidMessageError, parse_message

#: How long a client that lost an event stream should wait before it reconnects (milliseconds).
RETRY_MS = 1000
#: A session of the 2025 revisions without a request for this time expires; the oldest idle one ends if there are too many.
SESSION_IDLE_S = 30 * 60


@asynccontextmanager
async def open_endpoint(
    server: Server[Any], tokens: BearerTokens, origins: Origins, limit: Limit
) -> AsyncIterator[tuple[ASGIApp, McpEndpoint]]:
    """Yield the application for `/mcp`, and the endpoint in it. `limit` is that of its sessions."""
    manager = _SessionManager(
        server,
        max_request_body_size=json_lines.MAX_LINE_BYTES,
        retry_interval=RETRY_MS,
        session_idle_timeout=SESSION_IDLE_S,
        max_sessions=limit.maximum,
    )
    endpoint = McpEndpoint(manager)
    async with manager.run():
        yield Guard(endpoint, tokens, origins), endpoint


async def serve_http(
    server: Server[Any],
    listener: socket.socket,
    tokens: Tokens,
    record: Record = lambda event, **fields: None,
    limits: Mapping[str, Limit] = LIMITS,
) -> None:
    """Serve only MCP on a listening socket until cancelled; then end open requests and close the socket.

    Args:
        record: adds a row to the audit log.
        limits: the named limits; those of connections and sessions are enforced here.
    """
    bearer = BearerTokens(tokens, record)
    try:
        async with open_endpoint(server, bearer, Origins(), limits["max_mcp_sessions"]) as (app, endpoint):
            await serve(app, listener, limits=ConnectionLimits(limits["max_http_connections"]), on_stop=endpoint.close)
    finally:
        bearer.close()


class _SessionManager(StreamableHTTPSessionManager):
    """Gives each session a separate event store: stream ids are request ids, which several sessions may use."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clients: WeakKeyDictionary[StreamableHTTPServerTransport, Client] = WeakKeyDictionary()

    @property
    def event_store(self) -> RecentEvents:
        return RecentEvents()

    @event_store.setter
    def event_store(self, store: object) -> None:
        """Ignore the value that the SDK's constructor sets."""

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. Sessions are kept in the order of their last use, and each is one client.

        The SDK refuses the request of another token than that which opened the session.
        """
        user: TokenUser = scope["user"]
        session_id = Headers(scope=scope).get(MCP_SESSION_ID_HEADER, "")
        if (session := self._server_instances.pop(session_id, None)) is not None:
            self._server_instances[session_id] = session
        client = self._clients.get(session) if session is not None else None
        if client is not None and client.principal != user.principal:
            client = None
        with serving_connection(user.principal, elicits=True) if client is None else serving(client):
            await super().handle_request(scope, receive, send)

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        """Forget a session that has ended, for whatever reason."""
        if (client := self._clients.get(transport)) is not None:
            client.leave()
        await super()._discard_session(session_id, transport)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        """Above the limit of sessions, end the longest idle session, whose client probably left without DELETE."""
        if self.max_sessions is not None and len(self._server_instances) >= self.max_sessions:
            for session in self._server_instances.values():
                if not session._requests_in_flight and session.idle_scope is not None:
                    session.idle_scope.cancel()
                    del self._server_instances[str(session.mcp_session_id)]
                    break
        admitted = super()._admit_session(requestor)
        if admitted is not None:
            self._clients[admitted] = Client(current_principal(), elicits=True)
        return admitted


class McpEndpoint:
    """The ASGI application behind the guard.

    A GET stream of the 2025 revisions stays open as long as its client lives; `close` ends all open requests.
    """

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager
        self._app = RequestBodyLimitMiddleware(_with_message_check(manager.handle_request), json_lines.MAX_LINE_BYTES)
        self._open: set[anyio.CancelScope] = set()
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != MCP_PATH:
            await PlainTextResponse(f"Not found; the endpoint is {MCP_PATH}\n", 404)(scope, receive, send)
        elif self._closed:
            await _send_unavailable(scope, receive, send)
        else:
            await self._handle(scope, receive, send)

    @property
    def sessions(self) -> int:
        """Number of open sessions."""
        return len(self._manager._server_instances)

    def close(self) -> None:
        """End open requests, and answer new ones with 503."""
        self._closed = True
        for request in self._open:
            request.cancel()

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = _ResponseState(send)
        with anyio.CancelScope() as request:
            self._open.add(request)
            try:
                await self._app(scope, receive, response)
            finally:
                self._open.discard(request)
        if not request.cancelled_caught:
            return
        if not response.started:
            await _send_unavailable(scope, receive, send)
        elif not response.finished:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _with_message_check(app: ASGIApp) -> ASGIApp:
    """Answer a body that is no message with an error under the caller's id: the SDK's errors have none."""

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await app(scope, receive, send)
            return
        request = await receive()  # complete: the size limit has collected it
        try:
            parse_message(request.get("body", b""))
        except InvalidMessageError as error:
            content = json_lines.encode(error.reply.model_dump(by_alias=True, exclude_unset=True))
            await Response(content, 400, media_type="application/json")(scope, receive, send)
            return
        replayed = iter([request])

        async def replay() -> Message:
            return next(replayed, None) or await receive()

        await app(scope, replay, send)

    return check


class _ResponseState:
    """A `Send` that records how much of the response was sent.

    It numbers the events that the SDK sends without an id, to clients of the 2026 revision, and adds `retry` to the first.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._events = 0
        self.started = False
        self.finished = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        if (body := message.get("body", b"")).startswith(b"event: message\r\n"):
            self._events += 1
            retry = f"retry: {RETRY_MS}\r\n" if self._events == 1 else ""
            message = {**message, "body": f"id: {self._events}\r\n{retry}".encode() + body}
        self.finished = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)


async def _send_unavailable(scope: Scope, receive: Receive, send: Send) -> None:
    body = {"error": "unavailable", "message": "The server is shutting down; connect again when it is back"}
    await JSONResponse(body, 503)(scope, receive, send)


#: Number of the most recent events that are kept.
MAX_EVENTS = 100


class _Event(NamedTuple):
    event_id: str
    stream_id: str
    message: JSONRPCMessage | None


class RecentEvents(EventStore):
    """The last events of one session. Ids count from 1."""

    def __init__(self) -> None:
        self._events: deque[_Event] = deque(maxlen=MAX_EVENTS)
        self._last_id = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Store an event, None for the first of a stream, and return its id."""
        self._last_id += 1
        self._events.append(_Event(str(self._last_id), stream_id, message))
        return str(self._last_id)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send the later events of the same stream; return the stream, or None if the event is not kept any more."""
        events = list(self._events)
        position = next((at for at, event in enumerate(events) if event.event_id == last_event_id), None)
        if position is None:
            return None
        stream_id = events[position].stream_id
        for event in events[position + 1 :]:
            if event.stream_id == stream_id and event.message is not None:
                await send_callback(EventMessage(event.message, event.event_id))
        return stream_id


class TokenUser(AuthenticatedUser):
    """The user of a request. The SDK binds a session to the token that opened it."""

    def __init__(self, token: Token) -> None:
        super().__init__(AccessToken(token="", client_id=f"{token.principal.name}:{token.sha256}", scopes=[]))
        self.principal = token.principal


class Guard:
    """ASGI middleware that passes on the requests of clients with a token."""

    def __init__(self, app: ASGIApp, tokens: BearerTokens, origins: Origins) -> None:
        """Guard an application."""
        self._app = app
        self._tokens = tokens
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        response = self._check_origin(headers, scope) or self._check_token(headers, scope)
        await (response or self._app)(scope, receive, send)

    def _check_origin(self, headers: Headers, scope: Scope) -> Response | None:
        """Return 403 unless Host and Origin are the server's."""
        if self._origins.target(scope.get("scheme", "http"), headers.getlist("host")) is None:
            self._tokens.refuse("the Host header is not a loopback address")
            return _forbidden("The Host header is not a loopback address: use http://127.0.0.1:PORT/mcp")
        if not all(map(self._origins.admits, headers.getlist("origin"))):
            self._tokens.refuse("a page of another origin")
            return _forbidden("Requests from pages of other origins are rejected")
        return None

    def _check_token(self, headers: Headers, scope: Scope) -> Response | None:
        """Return 401 or 429 unless the token is valid; add its user to the scope."""
        try:
            scope["user"] = TokenUser(self._tokens.authenticate(headers, scope))
        except TokenRefusedError as error:
            name = "too_many_requests" if error.status == 429 else "unauthorized"
            return JSONResponse({"error": name, "message": str(error)}, error.status, {**error.headers, **_CLOSE})
        return None


#: Only the connection of an authenticated client stays open after its response.
_CLOSE = {"Connection": "close"}


def _forbidden(message: str) -> Response:
    return JSONResponse({"error": "forbidden", "message": message}, 403, _CLOSE)

"""The ASGI application of the web console: its routes, and the checks before them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.audit.audit_log import LimitedRows
from ptyctl.cancellation import cancel_and_wait
from ptyctl.controller.tokens import Token, Tokens
from ptyctl.core.limits import LIMITS, Limit
from ptyctl.core.principal import Principal
from ptyctl.http.bearer import BearerTokens, GuessLimit, Record, TokenRefusedError
from ptyctl.http.connection_limits import abort_connection
from ptyctl.http.origins import Origins
from ptyctl.version import __version__

from . import downloads, static_files
from .calls import call, read_json
from .errors import RefusedError, error_response, json_response, not_logged_in, on_error, token_refused
from .security import COOKIE, RequestGuard, WebSession, WebSessions, set_cookie, with_security_headers
from .stream.endpoint import serve_stream as serve_console
from .stream.topics import TASK_ID

#: Interval at which the login of an open WebSocket or a download is checked (seconds).
RECHECK_S = 1.0
_MAX_LOGIN_BYTES = 4096
#: How long a client may take to send the body of a login (seconds).
LOGIN_BODY_TIMEOUT_S = 10.0
#: How long the message that closes a WebSocket waits for a client that does not read (seconds).
CLOSE_MESSAGE_TIMEOUT_S = 2.0
#: Close code of a WebSocket whose login has ended (RFC 6455, section 7.4.2: for private use).
_LOGIN_ENDED = 4401
#: The addresses of the views: all get the page, which reads the view from its address.
_VIEWS = (
    "/",
    "/login",
    "/s/{session}",
    "/s/{session}/b/{block}",
    "/s/{session}/at/{offset}",
    "/approvals",
    "/search",
    "/devices",
    "/audit",
)
#: Addresses that need no login.
_OPEN = ("/api/login",)

ServeStream = Callable[[WebSocket, Controller], Awaitable[None]]


class WebApp:
    """The console of one controller, which decides what a principal may do."""

    def __init__(
        self,
        controller: Controller,
        tokens: Tokens,
        record: Record,
        origins: Origins | None = None,
        limits: Mapping[str, Limit] = LIMITS,
        *,
        guesses: GuessLimit | None = None,
        serve_stream: ServeStream | None = None,
    ) -> None:
        """Create the application.

        Args:
            record: adds rows to the audit log.
            origins: the addresses at which browsers reach it.
            limits: the named limits. Each client is a principal here.
            guesses: counts wrong tokens and tickets; shared with other servers of the same tokens.
            serve_stream: serves a WebSocket, whose client is set as the current one, until it ends; by default that of the
                console.
        """
        self._controller = controller
        self._tokens = BearerTokens(tokens, record, guesses)
        self._sessions = WebSessions(self._tokens.accepts, limits)
        self._guard = RequestGuard(origins or Origins(), self._tokens, self._sessions)
        self._record = record
        self._limits = limits
        #: The rows for the logins and logouts of each principal.
        self._rows: dict[tuple[str, str], LimitedRows] = {}
        self._serve_stream = serve_stream or partial(serve_console, limit=limits["max_socket_subscriptions"])
        self._app = Starlette(routes=self._routes(), exception_handlers={PtyctlError: on_error, HTTPException: _on_http_error})

    def mint_ticket(self, principal: Principal) -> str:
        """Return a ticket that logs in as a principal, once and within a minute."""
        return self._sessions.mint_ticket(principal)

    def limits_in_use(self) -> dict[str, int]:
        """Return how many logins and tickets there are, by the names of their limits."""
        return self._sessions.limits_in_use()

    def close(self) -> None:
        """End the logins, and record the number of rows that were suppressed in the last minute."""
        self._sessions.close()
        self._tokens.close()
        for rows in self._rows.values():
            rows.flush()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = with_security_headers(scope, send)
        connection = HTTPConnection(scope)
        try:
            target = self._guard.check_host(connection)
            scope["state"]["target"] = target
            if scope["path"].startswith("/api/") and scope["path"] not in _OPEN:
                with self._guard.admit(connection, target) as session:
                    scope["state"]["web_session"] = session
                    await self._app(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        except RefusedError as error:
            response = error_response(error)
            if scope["type"] == "websocket":
                await WebSocket(scope, receive, send).send_denial_response(response)
            else:
                await response(scope, receive, send)

    def _routes(self) -> list[BaseRoute]:
        return [
            Route("/api/login", self._login, methods=["POST"]),
            Route("/api/logout", self._logout, methods=["POST"]),
            Route("/api/me", self._me),
            Route("/api/call/{method}", partial(call, controller=self._controller), methods=["POST"]),
            WebSocketRoute("/api/stream", self._stream),
            *downloads.routes(self._controller, self._run_download),
            *(Route(view, static_files.page) for view in _VIEWS),
            Route("/static/{path:path}", static_files.static),
            Route("/vendor/{path:path}", static_files.vendor),
        ]

    async def _login(self, request: Request) -> Response:
        """Exchange a ticket or a token for a cookie."""
        self._guard.check_origin(request, request.state.target)
        address = _address(request)
        body = await read_json(request, _MAX_LOGIN_BYTES, LOGIN_BODY_TIMEOUT_S)
        token = None
        try:
            match body:
                case {"ticket": str(ticket), **rest} if not rest:
                    by, principal = "ticket", self._redeem(ticket, address)
                case {"token": str(text), **rest} if not rest:
                    token = self._find_token(text, address)
                    by, principal = "token", token.principal
                case _:
                    raise invalid("give a ticket or a token, as text")
        except TokenRefusedError as error:
            raise token_refused(error) from None
        cookie, session = self._sessions.create(principal, token)
        self._record_login("connect", principal, by=by, address=address)
        response = json_response(_describe(session))
        set_cookie(response, cookie, request.state.target)
        return response

    def _record_login(self, event: str, principal: Principal, **fields: object) -> None:
        rows = LimitedRows(self._record, event, via="web", principal=principal.name)
        self._rows.setdefault((event, principal.name), rows).record(**fields)

    def _redeem(self, ticket: str, address: str) -> Principal:
        """Return the principal of a ticket. A valid ticket is accepted even after failures, because it cannot be guessed."""
        principal = self._sessions.redeem(ticket)
        if principal is None:
            self._tokens.count_guess("unknown, used or expired ticket", address)
            raise not_logged_in()
        return principal

    def _find_token(self, text: str, address: str) -> Token:
        token = self._tokens.find(text, address)
        if token is None:
            raise not_logged_in()
        return token

    async def _logout(self, request: Request) -> Response:
        session: WebSession = request.state.web_session
        self._sessions.end(request.cookies.get(COOKIE, ""))
        self._record_login("disconnect", session.principal)
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response

    async def _me(self, request: Request) -> Response:
        return json_response(_describe(request.state.web_session))

    async def _stream(self, websocket: WebSocket) -> None:
        """Serve a WebSocket until its client leaves, or its login ends."""
        session: WebSession = websocket.state.web_session
        with session.client.counter(self._limits["max_client_sockets"]).counting():
            if await self._run_while_valid(session, lambda: self._serve_stream(websocket, self._controller)):
                return
            with suppress(RuntimeError, WebSocketDisconnect, TimeoutError):  # it was closed already, or does not read
                async with asyncio.timeout(CLOSE_MESSAGE_TIMEOUT_S):
                    await websocket.close(_LOGIN_ENDED, "the login has ended")

    async def _run_download(self, scope: Scope, receive: Receive, send_response: Callable[[], Awaitable[None]]) -> None:
        """Send the response of a download. If the login ends meanwhile, so does the connection, without the end of the file."""
        session: WebSession = scope["state"]["web_session"]
        with session.client.counter(self._limits["max_client_downloads"]).counting():
            if not await self._run_while_valid(session, send_response):
                await abort_connection(scope, receive)

    async def _run_while_valid(self, session: WebSession, serve: Callable[[], Awaitable[None]]) -> bool:
        """Run a function until it returns, or cancel it when the login ends. Return whether it has returned."""
        serving = asyncio.ensure_future(serve())
        try:
            while not serving.done() and self._sessions.is_valid(session):
                await asyncio.wait((serving,), timeout=RECHECK_S)
            if is_done := serving.done():
                serving.result()
            return is_done
        finally:
            await cancel_and_wait(serving)


def _describe(session: WebSession) -> dict[str, Any]:
    principal = session.principal
    return {
        "principal": {"name": principal.name, "kind": principal.kind, "role": principal.role},
        "csrf": session.csrf,
        "version": __version__,
        "task_id": TASK_ID,
        "ts": time.time_ns() // 1_000_000,
    }


def _address(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client is not None else "unknown"


async def _on_http_error(_request: Request, error: Exception) -> Response:
    """Return the response for an unknown path or method."""
    assert isinstance(error, HTTPException)
    code = ErrorCode.NOT_FOUND if error.status_code == 404 else ErrorCode.INVALID_ARGUMENT
    return error_response(RefusedError(error.status_code, code, error.detail, headers=error.headers))

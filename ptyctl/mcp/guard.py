"""Access control of the HTTP endpoint: Host and Origin must be loopback, and the bearer token must be valid.

The SDK also checks Host and Origin, but answers a foreign Host with 421, and supports tokens only as part of OAuth.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ptyctl.audit.limited_rows import LimitedRows
from ptyctl.controller.tokens import Token, Tokens

from .access import is_loopback
from .connection_limits import SEEN

#: Adds a row with an event and its fields to the audit log.
Record = Callable[..., None]
#: host[:port] of RFC 3986, section 3.2, without userinfo, which neither header allows.
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^:@/?#\[\]\s]+))(?::\d{1,5})?")
_ORIGIN = re.compile(r"https?://(?P<authority>.*)")
_BEARER = re.compile(r"bearer +(?P<token>\S+)", re.IGNORECASE)


class TokenUser(AuthenticatedUser):
    """The user of a request. The SDK binds a session to the token that opened it."""

    def __init__(self, token: Token) -> None:
        super().__init__(AccessToken(token="", client_id=f"{token.principal.name}:{token.sha256}", scopes=[]))
        self.principal = token.principal


class Guard:
    """ASGI middleware. The checks of Host and Origin stop DNS rebinding by a page in a local browser."""

    def __init__(self, app: ASGIApp, tokens: Tokens, record: Record = lambda event, **fields: None) -> None:
        """Guard an application. `record` adds rows to the audit log."""
        self._app = app
        self._tokens = tokens
        self._record = record
        self._refusals = LimitedRows(record, "refused", via="http")
        #: The rows for the connections of each token.
        self._connections: dict[str, LimitedRows] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        response = self._check_origin(headers) or self._check_token(headers, scope)
        await (response or self._app)(scope, receive, send)

    def close(self) -> None:
        """Record what the last minute has left out."""
        for rows in (self._refusals, *self._connections.values()):
            rows.flush()

    def _check_origin(self, headers: Headers) -> Response | None:
        """Return 403 unless Host and Origin are loopback."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not _is_loopback_authority(hosts[0]):
            self._refusals.record(why="the Host header is not a loopback address")
            return _forbidden("The Host header is not a loopback address: use http://127.0.0.1:PORT/mcp")
        for origin in headers.getlist("origin"):
            match = _ORIGIN.fullmatch(origin)
            if match is None or not _is_loopback_authority(match["authority"]):
                self._refusals.record(why="a page of another origin")
                return _forbidden("Requests from pages of other origins are rejected")
        return None

    def _check_token(self, headers: Headers, scope: Scope) -> Response | None:
        """Return 401 unless the token is valid; add its user to the scope.

        RFC 6750, section 3: no error code if the request has no token.
        """
        values = headers.getlist("authorization")
        match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
        if match is None:
            self._refusals.record(why="no token")
            return _unauthorized("Send the header Authorization: Bearer TOKEN", 'Bearer realm="ptyctl"')
        token = self._tokens.find(match["token"])
        if token is None:
            expired = self._tokens.find_expired(match["token"])
            named = {} if expired is None else {"principal": expired.principal.name}
            self._refusals.record(why="unknown token" if expired is None else "expired token", **named)
            return _unauthorized("The token does not match this server's", 'Bearer realm="ptyctl", error="invalid_token"')
        scope["user"] = TokenUser(token)
        self._record_connection(token.principal.name, scope)
        return None

    def _record_connection(self, name: str, scope: Scope) -> None:
        """Record the first request of a token on a connection."""
        seen: set[str] = scope.get("state", {}).get(SEEN, set())
        if name not in seen:
            seen.add(name)
            rows = self._connections.setdefault(name, LimitedRows(self._record, "connect", via="http", principal=name))
            rows.record()


def _is_loopback_authority(authority: str) -> bool:
    """Any port is accepted: the local end of a tunnel has another one."""
    match = _AUTHORITY.fullmatch(authority)
    return match is not None and is_loopback(match["v6"] or match["host"])


#: Only the connection of an authenticated client stays open after its response.
_CLOSE = {"Connection": "close"}


def _forbidden(message: str) -> Response:
    return JSONResponse({"error": "forbidden", "message": message}, 403, _CLOSE)


def _unauthorized(message: str, challenge: str) -> Response:
    return JSONResponse({"error": "unauthorized", "message": message}, 401, {"WWW-Authenticate": challenge, **_CLOSE})

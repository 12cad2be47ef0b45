"""Access control of the MCP endpoint: Host and Origin must be the server's, and the bearer token must be valid.

The SDK also checks Host and Origin, but answers a foreign Host with 421, and supports tokens only as part of OAuth.
"""

from __future__ import annotations

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ptyctl.controller.tokens import Token
from ptyctl.http.bearer import BearerTokens, TokenRefusedError
from ptyctl.http.origins import Origins


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
        """Return 401 unless the token is valid; add its user to the scope."""
        try:
            scope["user"] = TokenUser(self._tokens.authenticate(headers, scope))
        except TokenRefusedError as error:
            body = {"error": "unauthorized", "message": str(error)}
            return JSONResponse(body, 401, {"WWW-Authenticate": error.challenge, **_CLOSE})
        return None


#: Only the connection of an authenticated client stays open after its response.
_CLOSE = {"Connection": "close"}


def _forbidden(message: str) -> Response:
    return JSONResponse({"error": "forbidden", "message": message}, 403, _CLOSE)

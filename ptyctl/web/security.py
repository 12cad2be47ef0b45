"""Checks of every request, and the security headers of every response.

A request that changes something, and a WebSocket upgrade, need the exact Origin of the console. With the cookie, which a
browser sends for pages of other ports of the same host too, a POST also needs the header X-Ptyctl-CSRF.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Scope, Send

from ptyctl.api.errors import ErrorCode
from ptyctl.http.bearer import BearerTokens, TokenRefusedError
from ptyctl.http.connection_limits import SEEN
from ptyctl.http.origins import Origin, Origins
from ptyctl.session.clients import serving

from .errors import RefusedError, not_logged_in, token_refused
from .sessions import SESSION_LIFETIME_S, WebSession, WebSessions, is_equal

COOKIE = "ptyctl_session"
CSRF_HEADER = "X-Ptyctl-CSRF"
_NONCE_BYTES = 16
#: Key of the nonce in the state of a request.
_NONCE = "csp_nonce"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types lit-html"
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def nonce_of(scope: Scope) -> str:
    """Return the nonce of a request, which its response's Content-Security-Policy names."""
    nonce: str = scope["state"][_NONCE]
    return nonce


def with_security_headers(scope: Scope, send: Send) -> Send:
    """Return a `send` that adds the headers to the response of a request. Without Cache-Control, it is not cached."""
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    scope.setdefault("state", {})[_NONCE] = nonce

    async def send_with_headers(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            headers["Content-Security-Policy"] = _POLICY.format(nonce=nonce)
            headers.update(_HEADERS)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_headers


def set_cookie(response: Response, cookie: str, target: Origin) -> None:
    """Add the cookie of a session. A browser sends it over TLS only, if the console is reached over TLS."""
    is_tls = target.scheme == "https"
    response.set_cookie(COOKIE, cookie, SESSION_LIFETIME_S, path="/", secure=is_tls, httponly=True, samesite="strict")


class RequestGuard:
    """Checks requests: Host, Origin, login and CSRF header."""

    def __init__(self, origins: Origins, tokens: BearerTokens, sessions: WebSessions) -> None:
        self._origins = origins
        self._tokens = tokens
        self._sessions = sessions

    def check_host(self, connection: HTTPConnection) -> Origin:
        """Return the origin that a request was sent to. Raises RefusedError if it is not one of this server."""
        scheme = connection.scope["scheme"].replace("ws", "http")
        target = self._origins.target(scheme, connection.headers.getlist("host"))
        if target is None:
            raise self._refuse("the Host header is not a loopback address or the public origin")
        return target

    def check_origin(self, connection: HTTPConnection, target: Origin, *, required: bool = True) -> None:
        """Raise RefusedError unless the request comes from a page of this origin, or has no Origin and needs none."""
        origins = connection.headers.getlist("origin")
        if not origins and not required:
            return
        if [Origin.parse(origin) for origin in origins] != [target]:
            raise self._refuse("a page of another origin" if origins else "no Origin header")

    @contextmanager
    def admit(self, connection: HTTPConnection, target: Origin) -> Iterator[WebSession]:
        """Set the client of a request that is logged in, by a bearer token or by the cookie.

        Raises:
            RefusedError: the request is not logged in, or lacks the Origin or the CSRF header that it needs.
        """
        changes = connection.scope["type"] == "websocket" or connection.scope["method"] not in ("GET", "HEAD")
        if "authorization" in connection.headers:
            self.check_origin(connection, target, required=False)
            try:
                token = self._tokens.authenticate(connection.headers, connection.scope)
            except TokenRefusedError as error:
                raise token_refused(error) from None
            of_token = self._sessions.of_token(token)
            with serving(of_token.client):
                yield of_token
            return
        if changes:
            self.check_origin(connection, target)
        elif connection.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise self._refuse("a page of another origin")
        session = self._sessions.find(connection.cookies.get(COOKIE, ""))
        if session is None:
            raise not_logged_in()
        if changes and connection.scope["type"] == "http":
            self._check_csrf(connection, session)
        connection.scope["state"].get(SEEN, set()).add(session)
        with serving(session.client):
            yield session

    def _check_csrf(self, connection: HTTPConnection, session: WebSession) -> None:
        if not is_equal(connection.headers.get(CSRF_HEADER, ""), session.csrf):
            raise self._refuse(f"the header {CSRF_HEADER} is missing or not that of the login")

    def _refuse(self, why: str) -> RefusedError:
        self._tokens.refuse(why)
        return RefusedError(403, ErrorCode.FORBIDDEN, f"the request is refused: {why}")

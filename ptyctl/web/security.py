"""What every request must pass, and the headers that every response gets.

A request that changes something, and a WebSocket upgrade, need the exact Origin of the console. With the cookie, which a
browser sends for pages of other ports of the same host too, a POST also needs the header X-Ptyctl-CSRF.
"""

from __future__ import annotations

import secrets
import time
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

from .errors import RefusedError, not_logged_in
from .sessions import SESSION_LIFETIME_S, WebSession, WebSessions, is_equal

COOKIE = "ptyctl_session"
CSRF_HEADER = "X-Ptyctl-CSRF"
#: Failed logins of one address in this time (seconds).
MAX_FAILURES = 10
FAILURE_PERIOD_S = 60.0
#: Addresses whose failed logins are counted.
_MAX_ADDRESSES = 1000
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
    """Return a `send` that adds the headers to the response of a request. A response is not cached unless it says so."""
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
                raise not_logged_in(error.challenge) from None
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


class FailureLimit:
    """Counts the failed logins of each address."""

    def __init__(self) -> None:
        #: Begin of the period and number of failures.
        self._failures: dict[str, tuple[float, int]] = {}

    def check(self, address: str) -> None:
        """Raise RefusedError (429) if an address has failed too often."""
        begin, count = self._failures.get(address, (0.0, 0))
        wait_s = begin + FAILURE_PERIOD_S - time.monotonic()
        if count >= MAX_FAILURES and wait_s > 0:
            raise RefusedError(
                429,
                ErrorCode.LIMIT_EXCEEDED,
                f"too many failed logins from {address}",
                hint=f"wait {wait_s:.0f} s, or run: ptyctl web",
                headers={"Retry-After": str(int(wait_s) + 1)},
            )

    def failed(self, address: str) -> RefusedError:
        """Count a failed login, and return its error. Raises RefusedError (429) if there were too many before."""
        self.check(address)
        now = time.monotonic()
        begin, count = self._failures.pop(address, (now, 0))
        if now - begin > FAILURE_PERIOD_S:
            begin, count = now, 0
        if len(self._failures) >= _MAX_ADDRESSES:
            del self._failures[next(iter(self._failures))]
        self._failures[address] = begin, count + 1
        return not_logged_in()

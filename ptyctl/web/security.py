"""Logins of the web console, the checks of every request, and the security headers of every response.

A login is by a single-use ticket; a cookie names the web session that follows. Both are in memory only, so a new daemon knows
none of those of its predecessor.

A request that changes something, and a WebSocket upgrade, need the exact Origin of the console. With the cookie, which a
browser sends for pages of other ports of the same host too, a POST also needs the header X-Ptyctl-CSRF.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakValueDictionary

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Scope, Send

from ptyctl.api.errors import ErrorCode
from ptyctl.clock import boot_time
from ptyctl.controller.tokens import Token
from ptyctl.core.limits import LIMITS, Limit
from ptyctl.core.principal import Principal
from ptyctl.http.bearer import BearerTokens, TokenRefusedError
from ptyctl.http.connection_limits import SEEN
from ptyctl.http.origins import Origin, Origins
from ptyctl.session.clients import Client, serving

from .errors import RefusedError, not_logged_in, token_refused

COOKIE = "ptyctl_session"
_CSRF_HEADER = "X-Ptyctl-CSRF"
_NONCE_BYTES = 16
#: Key of the nonce in the state of a request.
_NONCE = "csp_nonce"
_CONTENT_SECURITY_POLICY = (
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
#: Random bytes of a ticket, of a cookie and of a CSRF value.
_SECRET_BYTES = 32
TICKET_LIFETIME_S = 60
SESSION_LIFETIME_S = 12 * 60 * 60


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
            headers["Content-Security-Policy"] = _CONTENT_SECURITY_POLICY.format(nonce=nonce)
            headers.update(_HEADERS)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_headers


def set_cookie(response: Response, cookie: str, target: Origin) -> None:
    """Add the cookie of a web session. A browser sends it over TLS only, if the console is reached over TLS."""
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
        if not _is_equal(connection.headers.get(_CSRF_HEADER, ""), session.csrf):
            raise self._refuse(f"the header {_CSRF_HEADER} is missing or not that of the login")

    def _refuse(self, why: str) -> RefusedError:
        self._tokens.refuse(why)
        return RefusedError(403, ErrorCode.FORBIDDEN, f"the request is refused: {why}")


class WebSession:
    """A login of a person, or of the holder of a token.

    Attributes:
        client: the client on whose behalf requests are made. All sessions of a principal have the same one.
        csrf: the value that requests with the cookie repeat in a header.
    """

    def __init__(self, client: Client, token: Token | None, expires_at: float, *, csrf: str = "") -> None:
        self.client = client
        self.csrf = csrf
        self._token = token
        self._expires_at = expires_at
        self._has_ended = False

    @property
    def principal(self) -> Principal:
        return self.client.principal

    def is_valid(self, accepts: Callable[[Token], bool]) -> bool:
        """Return whether the web session has not ended. `accepts` returns whether a token is still valid."""
        return not self._has_ended and boot_time() < self._expires_at and (self._token is None or accepts(self._token))

    def end(self) -> None:
        """End the session before it expires."""
        self._has_ended = True


class WebSessions:
    """The tickets and web sessions of a server."""

    def __init__(self, accepts: Callable[[Token], bool], limits: Mapping[str, Limit] = LIMITS) -> None:
        """Create the store.

        Args:
            accepts: returns whether a token is still valid; sessions of an invalid token end.
            limits: the named limits. Above a limit, the oldest ticket or session ends.
        """
        self._accepts = accepts
        self._limit, self._total_limit = limits["max_principal_logins"], limits["max_web_logins"]
        self._ticket_limit = limits["max_web_tickets"]
        #: By the hash of the ticket or of the cookie, in the order of their creation.
        self._tickets: dict[str, tuple[Principal, float]] = {}
        self._sessions: dict[str, WebSession] = {}
        #: Kept by sessions of the console, and by those that they opened.
        self._clients: WeakValueDictionary[Principal, Client] = WeakValueDictionary()

    def limits_in_use(self) -> dict[str, int]:
        """Return how many tickets and sessions there are, by the names of their limits."""
        tickets = sum(boot_time() < expires_at for _, expires_at in self._tickets.values())
        return {self._ticket_limit.name: tickets, self._total_limit.name: len(self._sessions)}

    def mint_ticket(self, principal: Principal) -> str:
        """Return a ticket that logs in once, within a minute."""
        while len(self._tickets) >= self._ticket_limit.maximum:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(_SECRET_BYTES)
        self._tickets[_digest(ticket)] = principal, boot_time() + TICKET_LIFETIME_S
        return ticket

    def redeem(self, ticket: str) -> Principal | None:
        """Redeem a ticket and return its principal; None if the ticket is unknown, used or expired."""
        principal, expires_at = self._tickets.pop(_digest(ticket), (None, 0.0))
        return principal if boot_time() < expires_at else None

    def create(self, principal: Principal, token: Token | None = None) -> tuple[str, WebSession]:
        """Return the cookie of a new session, and the session. With a token, it ends when the token does."""
        for key, session in list(self._sessions.items()):
            if not session.is_valid(self._accepts):
                self._end(key)
        own = [key for key, session in self._sessions.items() if session.principal.name == principal.name]
        if len(own) >= self._limit.maximum:
            self._end(own[0])
        while len(self._sessions) >= self._total_limit.maximum:
            self._end(next(iter(self._sessions)))
        cookie = secrets.token_urlsafe(_SECRET_BYTES)
        client, csrf = self._client(principal), secrets.token_urlsafe(_SECRET_BYTES)
        session = WebSession(client, token, boot_time() + SESSION_LIFETIME_S, csrf=csrf)
        self._sessions[_digest(cookie)] = session
        client.counter(self._limit).increase()
        return cookie, session

    def of_token(self, token: Token) -> WebSession:
        """Return a session for one request with a bearer token."""
        return WebSession(self._client(token.principal), token, float("inf"))

    def find(self, cookie: str) -> WebSession | None:
        """Return the valid session of a cookie."""
        session = self._sessions.get(_digest(cookie))
        return session if session is not None and self.is_valid(session) else None

    def is_valid(self, session: WebSession) -> bool:
        """Return whether a session has not ended: by logout, by its age, or with its token."""
        return session.is_valid(self._accepts)

    def end(self, cookie: str) -> None:
        """End the session of a cookie, if there is one."""
        if (key := _digest(cookie)) in self._sessions:
            self._end(key)

    def close(self) -> None:
        """End all sessions."""
        for key in list(self._sessions):
            self._end(key)
        for client in self._clients.values():
            client.leave()

    def _end(self, key: str) -> None:
        session = self._sessions.pop(key)
        session.end()
        session.client.counter(self._limit).decrease()

    def _client(self, principal: Principal) -> Client:
        return self._clients.setdefault(principal, Client(principal))


def _digest(secret: str) -> str:
    """Return the key of a secret: a look-up by it takes no time that depends on the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _is_equal(one: str, other: str) -> bool:
    """Compare secrets in a time that does not depend on them."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))

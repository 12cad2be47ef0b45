"""Logins of the web console: single-use tickets, and web sessions, which a cookie names.

They are in memory only, so a new daemon knows none of those of its predecessor.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from ptyctl.controller.tokens import Token
from ptyctl.core.limits import LIMITS, Limit
from ptyctl.core.principal import Principal
from ptyctl.session.clients import Client

#: Random bytes of a ticket, of a cookie and of a CSRF value.
SECRET_BYTES = 32
TICKET_LIFETIME_S = 60
SESSION_LIFETIME_S = 12 * 60 * 60


class WebSession:
    """A login of a person, or of the holder of a token.

    Attributes:
        client: as which the requests are made. All sessions of a principal have the same one.
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
        return not self._has_ended and _now() < self._expires_at and (self._token is None or accepts(self._token))

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
        tickets = sum(_now() < expires_at for _, expires_at in self._tickets.values())
        return {self._ticket_limit.name: tickets, self._total_limit.name: len(self._sessions)}

    def mint_ticket(self, principal: Principal) -> str:
        """Return a ticket that logs in once, within a minute."""
        while len(self._tickets) >= self._ticket_limit.maximum:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(SECRET_BYTES)
        self._tickets[_digest(ticket)] = principal, _now() + TICKET_LIFETIME_S
        return ticket

    def redeem(self, ticket: str) -> Principal | None:
        """Redeem a ticket and return its principal; None if the ticket is unknown, used or expired."""
        principal, expires_at = self._tickets.pop(_digest(ticket), (None, 0.0))
        return principal if _now() < expires_at else None

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
        cookie = secrets.token_urlsafe(SECRET_BYTES)
        client, csrf = self._client(principal), secrets.token_urlsafe(SECRET_BYTES)
        session = WebSession(client, token, _now() + SESSION_LIFETIME_S, csrf=csrf)
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


def _now() -> float:
    """Return seconds since boot. They include the time for which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def is_equal(one: str, other: str) -> bool:
    """Compare secrets in a time that does not depend on them."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))

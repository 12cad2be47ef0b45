"""The bearer token of a request (RFC 6750), the limit of wrong tokens and tickets, and the audit log's rows about tokens."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Collection, Mapping

from starlette.datastructures import Headers
from starlette.types import Scope

from ptyctl.audit.audit_log import LimitedRows
from ptyctl.clock import boot_time
from ptyctl.controller.tokens import Token, Tokens

from .access import parse_ip
from .connection_limits import SEEN

#: Adds a row with an event and its fields to the audit log.
Record = Callable[..., None]
_BEARER = re.compile(r"bearer +(?P<token>\S+)", re.IGNORECASE)
_CHALLENGE = 'Bearer realm="ptyctl"'
#: Most wrong tokens and tickets of one address in a period, and its length (seconds).
MAX_GUESSES = 10
GUESS_PERIOD_S = 60.0
#: Addresses that are counted. While there are more, the others share one count.
MAX_ADDRESSES = 1000
#: A user of IPv6 has at least this network, and all addresses in it (RFC 6177).
_IPV6_PREFIX = 64
_OTHERS = "others"


class TokenRefusedError(Exception):
    """The request has no valid token, or its address must wait. `status` and `headers` are those of the response."""

    def __init__(self, message: str, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class BearerTokens:
    """Finds the token of a request. Records the first request of a token on a connection, and refused requests.

    After too many guesses of an address, its wrong tokens get 429 instead of 401, and so does a right one that may be a
    chosen word, unless it was accepted on the same connection before.
    """

    def __init__(self, tokens: Tokens, record: Record, guesses: GuessLimit | None = None) -> None:
        """Create the check. `record` adds rows to the audit log. `guesses` counts failures for all servers that share it."""
        self._tokens = tokens
        self._record = record
        self._guesses = guesses or GuessLimit()
        self._refusals = LimitedRows(record, "refused", via="http")
        #: The rows for the connections of each token.
        self._connections: dict[str, LimitedRows] = {}

    def authenticate(self, headers: Headers, scope: Scope) -> Token:
        """Return the token of a request.

        Raises:
            TokenRefusedError: with the challenge of RFC 6750, section 3, which has no error code if the request has no token.
        """
        values = headers.getlist("authorization")
        match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
        if match is None:
            self._refusals.record(why="no token")
            raise _unauthorized("Send the header Authorization: Bearer TOKEN", _CHALLENGE)
        seen: set[object] = scope.get("state", {}).get(SEEN, set())
        client = scope.get("client")
        token = self._find(match["token"], "unknown" if client is None else client[0], seen)
        if token is None:
            raise _unauthorized("The token does not match this server's", f'{_CHALLENGE}, error="invalid_token"')
        self._record_connection(token.principal.name, seen)
        return token

    def find(self, text: str, address: str) -> Token | None:
        """Return the valid token with this text. Counts and records a wrong one. Raises TokenRefusedError (429)."""
        return self._find(text, address, frozenset())

    def count_guess(self, why: str, address: str) -> None:
        """Count and record a wrong secret that an address sent, such as a ticket. Raises TokenRefusedError (429)."""
        self._refusals.record(why=why, address=address)
        self._check(address)
        self._guesses.count(address)

    def accepts(self, token: Token) -> bool:
        """Return whether a token that was found earlier is still valid."""
        return self._tokens.accepts(token)

    def refuse(self, why: str, **fields: object) -> None:
        """Record a request that was refused for another reason."""
        self._refusals.record(why=why, **fields)

    def close(self) -> None:
        """Record the number of rows that were suppressed in the last minute."""
        for rows in (self._refusals, *self._connections.values()):
            rows.flush()

    def _find(self, text: str, address: str, accepted: Collection[object]) -> Token | None:
        """Return the token as `find` does. `accepted`: names of the tokens that this connection used before."""
        token = self._tokens.find(text)
        if token is None:
            expired = self._tokens.find_expired(text)
            if expired is None:
                self.count_guess("unknown token", address)
            else:
                self._refusals.record(why="expired token", principal=expired.principal.name, address=address)
        elif token.may_be_guessed and token.principal.name not in accepted:
            self._check(address)
        return token

    def _check(self, address: str) -> None:
        """Raise TokenRefusedError (429) if an address has sent too many wrong tokens."""
        if wait_s := self._guesses.wait_s(address):
            message = f"Too many wrong tokens or tickets from {address}: try again in {wait_s} s"
            raise TokenRefusedError(message, 429, {"Retry-After": str(wait_s)})

    def _record_connection(self, name: str, seen: set[object]) -> None:
        if name not in seen:
            seen.add(name)
            rows = self._connections.setdefault(name, LimitedRows(self._record, "connect", via="http", principal=name))
            rows.record()


def _unauthorized(message: str, challenge: str) -> TokenRefusedError:
    return TokenRefusedError(message, 401, {"WWW-Authenticate": challenge})


class GuessLimit:
    """Counts the guesses of each address in periods that begin with the first one."""

    def __init__(self) -> None:
        #: Begin of the period and number of guesses, in the order of the begins.
        self._guesses: dict[str, tuple[float, int]] = {}

    def wait_s(self, address: str) -> int:
        """Return how long an address must wait before its next attempt (seconds, rounded up), or 0."""
        now = boot_time()
        self._forget_past(now)
        begin, count = self._guesses.get(self._key(address), (now, 0))
        return math.ceil(begin + GUESS_PERIOD_S - now) if count >= MAX_GUESSES else 0

    def count(self, address: str) -> None:
        """Count a guess."""
        now = boot_time()
        self._forget_past(now)
        key = self._key(address)
        begin, count = self._guesses.get(key, (now, 0))
        self._guesses[key] = begin, count + 1

    def _forget_past(self, now: float) -> None:
        """Forget the periods that have ended."""
        while self._guesses:
            oldest = next(iter(self._guesses))
            if now - self._guesses[oldest][0] < GUESS_PERIOD_S:
                break
            del self._guesses[oldest]

    def _key(self, address: str) -> str:
        """Return the key under which an address is counted. Addresses that a full table lacks share one key."""
        key = _network(address)
        return key if key in self._guesses or len(self._guesses) < MAX_ADDRESSES else _OTHERS


def _network(address: str) -> str:
    """Return the address of an IPv4 client, or the network of an IPv6 client."""
    parsed = parse_ip(address)
    if parsed is None or parsed.version == 4:
        return str(parsed or address)
    return str(ipaddress.ip_network((int(parsed), _IPV6_PREFIX), strict=False))

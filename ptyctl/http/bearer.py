"""The bearer token of a request (RFC 6750), and the rows of the audit log about tokens."""

from __future__ import annotations

import re
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import Scope

from ptyctl.audit.limited_rows import LimitedRows
from ptyctl.controller.tokens import Token, Tokens

from .connection_limits import SEEN

#: Adds a row with an event and its fields to the audit log.
Record = Callable[..., None]
_BEARER = re.compile(r"bearer +(?P<token>\S+)", re.IGNORECASE)
_CHALLENGE = 'Bearer realm="ptyctl"'


class TokenRefusedError(Exception):
    """The request has no valid token. `challenge` is the value of WWW-Authenticate."""

    def __init__(self, message: str, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge


class BearerTokens:
    """Finds the token of a request. Records the first request of a token on a connection, and refused requests."""

    def __init__(self, tokens: Tokens, record: Record) -> None:
        """Accept these tokens. `record` adds rows to the audit log."""
        self._tokens = tokens
        self._record = record
        self._refusals = LimitedRows(record, "refused", via="http")
        #: The rows for the connections of each token.
        self._connections: dict[str, LimitedRows] = {}

    def authenticate(self, headers: Headers, scope: Scope) -> Token:
        """Return the token of a request.

        Raises:
            TokenRefusedError: RFC 6750, section 3: no error code if the request has no token.
        """
        values = headers.getlist("authorization")
        match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
        if match is None:
            self._refusals.record(why="no token")
            raise TokenRefusedError("Send the header Authorization: Bearer TOKEN", _CHALLENGE)
        token = self.find(match["token"])
        if token is None:
            raise TokenRefusedError("The token does not match this server's", f'{_CHALLENGE}, error="invalid_token"')
        self._record_connection(token.principal.name, scope)
        return token

    def find(self, text: str, **fields: object) -> Token | None:
        """Return the valid token with this text. Records a refusal with these fields if there is none."""
        token = self._tokens.find(text)
        if token is None:
            expired = self._tokens.find_expired(text)
            named = {} if expired is None else {"principal": expired.principal.name}
            self._refusals.record(why="unknown token" if expired is None else "expired token", **named, **fields)
        return token

    def accepts(self, token: Token) -> bool:
        """Whether a token that was found earlier is still valid."""
        return self._tokens.accepts(token)

    def refuse(self, why: str, **fields: object) -> None:
        """Record a request that was refused for another reason."""
        self._refusals.record(why=why, **fields)

    def close(self) -> None:
        """Record what the last minute has left out."""
        for rows in (self._refusals, *self._connections.values()):
            rows.flush()

    def _record_connection(self, name: str, scope: Scope) -> None:
        seen: set[object] = scope.get("state", {}).get(SEEN, set())
        if name not in seen:
            seen.add(name)
            rows = self._connections.setdefault(name, LimitedRows(self._record, "connect", via="http", principal=name))
            rows.record()

"""Bearer tokens by name: tokens.json in the state directory, and the check of the token that a request carries."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import logging
import os
import pwd
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ptyctl.api.errors import ErrorCode, PtyctlError, invalid
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.files import MAX_JSON_BYTES, open_file, open_for_reading, parse_json, replace_file
from ptyctl.session.clients import user

_LOG = logging.getLogger(__name__)

#: Name of the token that the server's environment or a file of the user provides.
DEFAULT = "default"
#: Random bytes of a generated token.
TOKEN_BYTES = 32
#: Minimum length of a token that a user provides, in characters: a shorter one may be a word that can be guessed.
_MIN_UNGUESSABLE = 32

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Fields of stat(2) that change with the file, its mode or its owner; () if it could not be read.
_Version = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Token:
    """The stored fields of a token. Times are epoch seconds; with `expires_at` None it never expires.

    Attributes:
        may_be_guessed: it may be a word; generated tokens are random.
    """

    principal: Principal
    sha256: str
    created_at: int = 0
    expires_at: int | None = None
    may_be_guessed: bool = False

    def is_valid(self, now: float) -> bool:
        """Return whether it has not expired."""
        return self.expires_at is None or now < self.expires_at


class TokenFile:
    """The stored tokens. A damaged file, or one that other users own or can access, is an error instead of an empty file."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "tokens.json"

    def version(self) -> _Version:
        """Return a value that changes whenever the file does; None without a file. Raises OSError."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode, status.st_uid

    def load(self) -> dict[str, Token]:
        """Return the tokens by name, expired ones included.

        Raises:
            PtyctlError: POLICY_DENIED, IO_ERROR; INVALID_ARGUMENT for a damaged file.
        """
        try:
            # an administrator may link to it, as in a mounted secret; owner and mode of the file itself count
            with open_for_reading(Path(os.path.realpath(self._path))) as opened:
                status = os.fstat(opened.fileno())
                content = opened.read(min(status.st_size, MAX_JSON_BYTES))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise PtyctlError(ErrorCode.IO_ERROR, f"{self._path} cannot be read: {error.strerror}") from None
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PtyctlError(
                ErrorCode.POLICY_DENIED,
                f"{self._path} belongs to another user, or others can read it",
                hint=f"run: chmod 600 {self._path}",
            )
        try:
            return {token.principal.name: token for token in map(_decode, parse_json(content)["tokens"])}
        except (ValueError, KeyError, TypeError, AttributeError):
            hint = "restore it from a backup, or remove it and create the tokens again"
            raise invalid(f"{self._path} is damaged", hint=hint) from None

    def identity_of(self, name: str) -> str | None:
        """Return a text that identifies the valid token of this name; None without one.

        While the file cannot be used, the text equals no other one: what is bound to it is stale, now and later.
        """
        try:
            token = self.load().get(name)
        except PtyctlError:
            return f"unknown {secrets.token_hex()}"
        return token.sha256 if token is not None and token.is_valid(time.time()) else None

    def create(self, principal: Principal, expires_at: int | None) -> str:
        """Store a new token and return it; it cannot be read again.

        Raises:
            PtyctlError: INVALID_ARGUMENT for a name that is invalid or in use; as `load`; IO_ERROR.
        """
        _check_new(principal)
        text = make_token()
        with self._locked() as tokens:
            if principal.name in tokens:
                raise invalid(f"there is a token {principal.name} already", hint="revoke it first, or choose another name")
            tokens[principal.name] = Token(principal, _digest(text), int(time.time()), expires_at)
            self._store(tokens)
        return text

    def revoke(self, name: str) -> None:
        """Remove a token. Servers reject it from the next request on.

        Raises:
            PtyctlError: NOT_FOUND; as `load`; IO_ERROR.
        """
        with self._locked() as tokens:
            if name not in tokens:
                raise PtyctlError(ErrorCode.NOT_FOUND, f"there is no token {name}", hint="list them: ptyctl token list")
            del tokens[name]
            self._store(tokens)

    @contextmanager
    def _locked(self) -> Iterator[dict[str, Token]]:
        """Yield the tokens, which no other process changes meanwhile."""
        try:
            lock = open_file(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise PtyctlError(ErrorCode.IO_ERROR, f"{error.filename}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.load()
        finally:
            os.close(lock)

    def _store(self, tokens: Mapping[str, Token]) -> None:
        """Replace the file atomically; it is on disk when this returns."""
        rows = [
            {**asdict(token.principal), "sha256": token.sha256, "created_at": token.created_at, "expires_at": token.expires_at}
            for token in tokens.values()
        ]
        try:
            replace_file(self._path, json.dumps({"tokens": rows}, indent=1), sync=True)
        except OSError as error:
            raise PtyctlError(ErrorCode.IO_ERROR, f"{self._path} cannot be written: {error.strerror}") from None


class Tokens:
    """The tokens that a server accepts: those of the file, which is read again when it changes, and its own.

    While the file cannot be used, only the server's own token is accepted.
    """

    def __init__(self, file: TokenFile | None, default: str | None) -> None:
        """Use a file of named tokens, and the token that is named `default`.

        Raises:
            PtyctlError: as `TokenFile.load`.
        """
        self._file = file
        self._own = () if default is None else (_own_token(default),)
        self._named: tuple[Token, ...] = ()
        self._version: _Version = None
        self._fault = ""
        if file is not None:
            self._version = file.version()
            self._named = tuple(file.load().values())

    def find(self, text: str) -> Token | None:
        """Return the valid token with this text. The time that it takes does not depend on the text."""
        self._refresh()
        found = self._match(text)
        return found if found is not None and found.is_valid(time.time()) else None

    def accepts(self, token: Token) -> bool:
        """Return whether a token that was found earlier is still valid."""
        self._refresh()
        return token in (*self._own, *self._named) and token.is_valid(time.time())

    def find_expired(self, text: str) -> Token | None:
        """Return the token with this text that has expired."""
        found = self._match(text)
        return None if found is None or found.is_valid(time.time()) else found

    def _match(self, text: str) -> Token | None:
        digest, found = _digest(text), None
        for token in (*self._own, *self._named):
            if hmac.compare_digest(digest, token.sha256):
                found = token
        return found

    def _refresh(self) -> None:
        if self._file is None:
            return
        try:
            # The version is read first: if the file changes in between, it is read once more at the next request.
            if (version := self._file.version()) == self._version:
                return
            self._named = tuple(self._file.load().values())
            self._version, self._fault = version, ""
        except (OSError, PtyctlError) as error:  # it is read again at the next request
            self._version, self._named = (), ()
            if str(error) != self._fault:
                self._fault = str(error)
                _LOG.error("named tokens are rejected", extra={"why": self._fault})


def make_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def _own_token(text: str) -> Token:
    """Return the token that the server's environment or a file provides."""
    principal = Principal(DEFAULT, Kind.AGENT, Role.OPERATOR)
    return Token(principal, _digest(text), may_be_guessed=len(text) < _MIN_UNGUESSABLE)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _decode(row: dict[str, Any]) -> Token:
    """Return a token of the file. Raises KeyError, ValueError, TypeError."""
    name, digest, created_at, expires_at = row["name"], row["sha256"], row["created_at"], row["expires_at"]
    valid = isinstance(name, str) and isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)
    devices = row["devices"]
    if not valid or type(created_at) is not int or type(expires_at) not in (int, type(None)) or not isinstance(devices, list):
        raise ValueError
    principal = Principal(name, Kind(row["kind"]), Role(row["role"]), tuple(devices))
    if not all(isinstance(glob, str) for glob in devices):
        raise ValueError
    return Token(principal, digest, created_at, expires_at)


def _check_new(principal: Principal) -> None:
    """Raise INVALID_ARGUMENT unless a token may have this principal, whose name must not be that of a user."""
    name = principal.name
    if not _NAME.fullmatch(name) or name == DEFAULT:
        raise invalid(f"{name} is no name for a token", hint="use letters, digits, dot, hyphen and underline; not 'default'")
    if name.isdigit() or name == user().name or _is_account(name):
        raise invalid(f"{name} is the name of a user of this machine, whose sessions and locks it would own")
    if principal.role is Role.APPROVER and principal.kind is Kind.AGENT:
        raise invalid("an agent cannot have the role approver", hint="create the token with the kind person")


def _is_account(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True

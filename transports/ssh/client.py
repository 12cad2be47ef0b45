"""asyncssh's callbacks for one connection: the host key, the login, and its end."""

from __future__ import annotations

import re
from collections.abc import Sequence

import asyncssh

from .attempt import Attempt, Stage

#: A prompt that asks for the password we have. Not one for a new password or a one-time password: answering those with the
#: password would be wrong, and would count as a failed login.
_ASKS_PASSWORD = re.compile(r"pass(?:word|code|phrase)", re.IGNORECASE)
_ASKS_ANOTHER = re.compile(r"\bnew\b|re-?type|re-?enter|repeat|again|confirm|one[- ]time|\botp\b", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\U0010ffff]+")
#: The most of a text of the far end that goes into a message, characters.
MAX_TEXT = 80

#: The methods in which a password may be given.
_USES_PASSWORD = frozenset({"auto", "password"})


class Client(asyncssh.SSHClient):
    """Answers the server on behalf of one endpoint's credentials, and notes in the attempt how far it came."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._connection: asyncssh.SSHClientConnection | None = None
        auth = attempt.endpoint.auth
        self._may_answer = auth.method in _USES_PASSWORD
        # Taken at its first use: a second try of the same password could lock the account.
        self._password = auth.password if self._may_answer else None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._connection = conn
        self._attempt.stage = Stage.VERSION

    def connection_lost(self, exc: Exception | None) -> None:
        self._attempt.lost = True
        self._note_version()

    def _note_version(self) -> None:
        if self._connection is not None:
            self._attempt.note_version(self._connection.get_extra_info("server_version"))

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        return self._attempt.host_keys.check(key)

    def begin_auth(self, username: str) -> None:
        # The key exchange is over: the server has proved that it has the key, which the check above could not know.
        self._attempt.stage = Stage.LOGIN
        self._note_version()
        self._attempt.host_keys.record()

    def auth_banner_received(self, msg: str, lang: str) -> None:
        self._attempt.banners.append(msg.replace("\r\n", "\n").rstrip("\n"))

    def auth_completed(self) -> None:
        self._attempt.stage = Stage.SESSION

    def public_key_auth_requested(self) -> None:
        """Called when the keys that asyncssh was given are used up."""
        self._note_methods()
        if self._attempt.keys and "publickey" not in self._attempt.tried:
            self._attempt.tried.append("publickey")

    def password_auth_requested(self) -> str | None:
        self._note_methods()
        if self._password is not None:
            self._attempt.tried.append("password")
        return self._take_password()

    def kbdint_auth_requested(self) -> str | None:
        """Tried even without a password: what it asks then stands in the error."""
        self._note_methods()
        if not self._may_answer:
            return None
        self._may_answer = False
        self._attempt.tried.append("keyboard-interactive")
        return ""

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> Sequence[str] | None:
        """The answers, if there is one for every prompt; a challenge without prompts only shows a text (RFC 4256 3.2)."""
        others = [printable(prompt) for prompt, _ in prompts if not _asks_for_password(prompt)]
        if others or (prompts and self._password is None):
            self._attempt.prompts += others
            return None
        password = self._take_password() if prompts else None
        return [password or "" for _ in prompts]

    def _take_password(self) -> str | None:
        password, self._password = self._password, None
        return password

    def _note_methods(self) -> None:
        """What the server still offers. It is asyncssh's list, which leaves out methods that asyncssh does not know."""
        if self._connection is not None:
            known = self._attempt.offered
            known += [method for method in self._connection.get_server_auth_methods() if method not in known]


def _asks_for_password(prompt: str) -> bool:
    return bool(_ASKS_PASSWORD.search(prompt)) and not _ASKS_ANOTHER.search(prompt)


def printable(text: str, limit: int = MAX_TEXT) -> str:
    """A text of the far end, for a message: without control characters, and of at most `limit` characters."""
    text = " ".join(_UNPRINTABLE.sub(" ", text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"

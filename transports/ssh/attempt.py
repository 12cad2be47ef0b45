"""One attempt to connect: asyncssh's callbacks, and the progress they record for error messages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import asyncssh

from .endpoint import SshEndpoint
from .host_keys import HostKeyCheck
from .known_hosts import subject_of
from .proxy_command import ProxyCommand
from .socket_input import limit_reads, read_after_reset

#: "Password" in the languages of the prompts that PAM and devices translate.
_PASSWORD = (
    r"pass(?:word|wort|ord)|kennwort|wachtwoord|lösenord|adgangskode|kodeord|salasana|mot de passe|contraseña|senha"
    r"|palavra[- ]passe|parola|hasło|heslo|пароль|şifre|jelszó|密码|密碼|口令|パスワード|비밀번호|암호"
)
#: The prompts for the password that was given, whole. Anything else around the word may make it another one: a new, repeated
#: or one-time password, for which the given one would be wrong, and count as a failed login.
_ASKS_PASSWORD = re.compile(
    rf"(?:\(\S+@\S+\) ?|\S+@\S+'s )?(?:enter (?:your )?|login |unix |ldap |enable |请?输入)?(?:{_PASSWORD})"
    r"(?: (?:for|für|pour|para|voor|för|til|di|de|для) (?P<user>[^\s:]+))? ?:?",
    re.IGNORECASE,
)
#: A prompt for a code, which is answered only if one was given: a password would be wrong there.
_ASKS_CODE = re.compile(r"\b(?:(?:pass|token)?code|otp|one[- ]time|token|verification|authenticator|2fa|mfa)\b", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\U0010ffff]+")
#: Maximum length of a server's text in a message, characters.
MAX_TEXT = 80
MAX_PROXY_TEXT = 400
#: Longer banners are cut (characters).
MAX_BANNER_TEXT = 4096


class Stage(StrEnum):
    """The stage of the attempt; the value is its description in messages."""

    TCP = "waiting for the TCP connection"
    VERSION = "waiting for the SSH version"
    KEY_EXCHANGE = "exchanging keys"
    LOGIN = "logging in"
    SESSION = "requesting the terminal"


@dataclass(slots=True)
class Attempt:
    """The progress of one attempt, updated by `SshClient`.

    Args:
        via: the label of the jump host that the connection goes through.
        lost: whether the connection is lost.
        offered: the authentication methods that the server offers, as far as it has sent them.
        tried: the names of the methods that were tried.
        keys: the number of keys to try.
        prompts: the keyboard-interactive prompts that nothing given answers, in printable form.
        proxy: the program of ProxyCommand that the connection goes through.
    """

    endpoint: SshEndpoint
    host_keys: HostKeyCheck
    via: str | None = None
    stage: Stage = Stage.TCP
    lost: bool = False
    server_version: str | None = None
    banners: list[str] = field(default_factory=list)
    keys: int = 0
    offered: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    proxy: ProxyCommand | None = None

    def note_version(self, version: str | None) -> None:
        """Record the server's version. asyncssh has no callback for it, so later callbacks call this."""
        self.server_version = version
        if version is not None and self.stage is Stage.VERSION:
            self.stage = Stage.KEY_EXCHANGE

    def reach(self, stage: Stage) -> None:
        """Record that a stage has begun."""
        self.stage = stage

    def add_banner(self, text: str) -> None:
        """Record a banner of the server, unless the earlier ones are long enough."""
        if sum(map(len, self.banners)) < MAX_BANNER_TEXT:
            self.banners.append(text.replace("\r\n", "\n").rstrip("\n"))

    def note_offered(self, methods: Iterable[str]) -> None:
        """Record the login methods that the server offers."""
        self.offered += [method for method in methods if method not in self.offered]

    def note_tried(self, method: str) -> None:
        """Record that a login method was tried."""
        self.tried.append(method)

    def note_prompts(self, prompts: Iterable[str]) -> None:
        """Record prompts of the server that were not answered."""
        self.prompts.extend(prompts)

    def lose(self) -> None:
        """Record that the connection has ended."""
        self.lost = True

    @property
    def server_banner(self) -> str | None:
        """The server's version, followed by the lines of its banner."""
        lines = [self.server_version or "", *self.banners]
        banner = "\n".join(line for line in lines if line)
        return f"{banner[:MAX_BANNER_TEXT]} ..." if len(banner) > MAX_BANNER_TEXT else banner or None

    @property
    def proxy_output(self) -> str:
        """The stderr output of the ProxyCommand, as the end of a message."""
        text = printable(self.proxy.stderr, MAX_PROXY_TEXT) if self.proxy is not None else ""
        return f'; its ProxyCommand printed "{text}"' if text else ""

    @property
    def details(self) -> dict[str, Any]:
        """The address, in the form of error details."""
        return {"host": self.endpoint.host, "port": self.endpoint.port}


class Trail:
    """Follows an open through its jump hosts, so that a timeout can name the current one."""

    def __init__(self) -> None:
        self._current: Attempt | Trail | None = None

    def follow(self, current: Attempt | Trail) -> None:
        self._current = current

    @property
    def attempt(self) -> Attempt | None:
        """The attempt in progress."""
        return self._current.attempt if isinstance(self._current, Trail) else self._current


class SshClient(asyncssh.SSHClient):
    """asyncssh's callbacks for one connection: checks the host key, supplies the credentials, and updates the attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt, self._host_keys = attempt, attempt.host_keys
        self._connection: asyncssh.SSHClientConnection | None = None
        auth = attempt.endpoint.auth
        takes_password = auth.method in ("auto", "password")
        self._may_answer = takes_password or auth.one_time_code is not None
        # Sent once: a second failure with the same password could lock the account.
        self._password = auth.password if takes_password else None
        self._code = auth.one_time_code

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._connection = conn
        limit_reads(conn._transport)
        read_after_reset(conn)
        self._check_revocation(conn)
        self._attempt.reach(Stage.VERSION)

    def _check_revocation(self, conn: Any) -> None:
        """Check each host key or certificate as the server sent it, which asyncssh's own callbacks do not see."""
        validate = conn.validate_server_host_key

        def checked(key_data: bytes) -> Any:
            self._host_keys.present(key_data)
            subject = subject_of(key_data)
            if subject != key_data and self._host_keys.may_trust_authority(key_data):
                with suppress(asyncssh.HostKeyNotVerifiable):
                    return validate(key_data)
            # As in ssh(1), a certificate that is not accepted (its authority, names or dates) stands for its key.
            return validate(subject)

        conn.validate_server_host_key = checked

    def connection_lost(self, exc: Exception | None) -> None:
        self._attempt.lose()
        self._note_version()

    def _note_version(self) -> None:
        if self._connection is not None:
            self._attempt.note_version(self._connection.get_extra_info("server_version"))

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        return self._host_keys.check(key)

    def begin_auth(self, username: str) -> None:
        # The key exchange is complete: only now has the server proved that it owns the checked key.
        self._attempt.reach(Stage.LOGIN)
        self._note_version()
        self._host_keys.record()

    def auth_banner_received(self, msg: str, lang: str) -> None:
        self._attempt.add_banner(msg)

    def auth_completed(self) -> None:
        self._attempt.reach(Stage.SESSION)

    def public_key_auth_requested(self) -> None:
        """Record that all keys were tried; asyncssh calls this after the last one."""
        self._note_methods()
        if self._attempt.keys and "publickey" not in self._attempt.tried:
            self._attempt.note_tried("publickey")

    def password_auth_requested(self) -> str | None:
        self._note_methods()
        if self._password is not None:
            self._attempt.note_tried("password")
        return self._take_password()

    def kbdint_auth_requested(self) -> str | None:
        """Accept keyboard-interactive once, even without a password, so that the prompts appear in the error."""
        self._note_methods()
        if not self._may_answer:
            return None
        self._may_answer = False
        self._attempt.note_tried("keyboard-interactive")
        return ""

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> Sequence[str] | None:
        """Answer a challenge if all its prompts ask for the password or the one-time code; each is sent once.

        A challenge without prompts only shows text (RFC 4256 3.2).
        """
        kinds = ["code" if self._code is not None and _ASKS_CODE.search(prompt) else "password" for prompt, _ in prompts]
        others = [
            printable(prompt)
            for (prompt, _), kind in zip(prompts, kinds, strict=True)
            if kind == "password" and not _asks_for_password(prompt, self._attempt.endpoint.username)
        ]
        if others or ("password" in kinds and self._password is None):
            self._attempt.note_prompts(others)
            return None
        password = self._take_password() if "password" in kinds else None
        code = self._take_code() if "code" in kinds else None
        return [(code if kind == "code" else password) or "" for kind in kinds]

    def _take_code(self) -> str | None:
        code, self._code = self._code, None
        return code

    def _take_password(self) -> str | None:
        password, self._password = self._password, None
        return password

    def _note_methods(self) -> None:
        """Record the methods that the server offers, except those unknown to asyncssh."""
        if self._connection is not None:
            self._attempt.note_offered(self._connection.get_server_auth_methods())


def _asks_for_password(prompt: str, username: str) -> bool:
    """Return whether a prompt asks for the login's password, and nothing else."""
    match = _ASKS_PASSWORD.fullmatch(" ".join(unicodedata.normalize("NFKC", prompt).split()))
    if match is None:
        return False
    return match["user"] is None or match["user"].strip("'\"`").partition("@")[0] == username.partition("@")[0]


def printable(text: str, limit: int = MAX_TEXT) -> str:
    """Return a server's text without control characters and cut to `limit` characters, for a message."""
    text = " ".join(_UNPRINTABLE.sub(" ", text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"

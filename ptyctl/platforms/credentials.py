"""The part of a login that asks who one is: layers, tries, and which prompt came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ptyctl.api.errors import ErrorCode

from .login_action import Action, failed
from .pattern import any_matches
from .platform import Platform

#: More would lock an account on many devices.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Layer:
    """One login of several: the console server's comes before the device's. `username`, `password`: whether these are known."""

    platform: Platform
    username: bool = False
    password: bool = False


class Credentials:
    """Tells which credential a prompt wants, or that it was refused. It holds none."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers
        self._at = 0
        self._tries = 0
        self._sent: Literal["username", "password"] | None = None
        self.last_prompt = ""

    def let_through(self) -> bool:
        """Something else than a login prompt followed a password, if only silence: the next system is there. True if so."""
        is_next = self._sent == "password" and self._at + 1 < len(self._layers)
        if is_next:
            self._next_layer()
        return is_next

    @property
    def given(self) -> bool:
        """Whether the last layer has a password: no other login follows the one that it ends."""
        return self._sent == "password" and self._at + 1 == len(self._layers)

    def wants_password(self, line: str) -> bool:
        """Whether a line asks for the password of the name that was given just now."""
        return self._sent == "username" and any_matches(self._layer.platform.login.password, line)

    def asked(self, lines: Sequence[str]) -> Action | None:
        """The answer, if the last line asks for a name or a password. `lines`: all since the last answer."""
        login = self._layer.platform.login
        if any_matches(login.password, lines[-1]):
            return self._give("password", lines)
        return self._give("username", lines) if any_matches(login.username, lines[-1]) else None

    @property
    def _layer(self) -> Layer:
        return self._layers[self._at]

    def refused(self, how: str) -> Action:
        """The failure, with the prompt that came back."""
        why = f"the login was refused: {how} {self.last_prompt!r}; check the credentials of {self._whose()}"
        return failed(ErrorCode.AUTH_FAILED, why, self.last_prompt)

    def _give(self, what: Literal["username", "password"], lines: Sequence[str]) -> Action:
        begins = what == "username" or self._sent != "username"
        if begins and self._sent == "password" and self._is_next_layer(lines):
            self._next_layer()
        self.last_prompt = lines[-1].strip()
        if begins and self._tries == TRIES:
            return self.refused(f"after {TRIES} tries the far end asks again,")
        known = self._layer.username if what == "username" else self._layer.password
        if not known:
            why = f"the far end asks {self.last_prompt!r}, and {self._whose()} has no {what}; name one and open it again"
            return failed(ErrorCode.AUTH_FAILED, why, self.last_prompt)
        self._tries += begins
        self._sent = what
        if what == "username":
            return Action("username", self._layer.platform.login.username_suffix, layer=self._at)
        return Action("secret", secret="password", layer=self._at)

    def _is_next_layer(self, lines: Sequence[str]) -> bool:
        """A refusal says so, or brings the bare prompt back; other text before the prompt is the next system's greeting."""
        if self._at + 1 == len(self._layers):
            return False
        said = [line for line in lines[:-1] if line.strip()]
        return bool(said) and not any(any_matches(self._layer.platform.login.failures, line) for line in said)

    def _next_layer(self) -> None:
        self._at += 1
        self._tries, self._sent = 0, None

    def _whose(self) -> str:
        return "the console server" if self._at + 1 < len(self._layers) else "the device"

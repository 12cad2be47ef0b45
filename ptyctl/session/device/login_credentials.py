"""What a session answers where a terminal asks for a login. Kept in memory only."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import SecretStr

from ptyctl.platforms import QuestionAnswer, SecretName

#: Limit of a whole login: every tool call returns within 55 s (docs/contracts.md).
LOGIN_LIMIT_S = 45.0


@dataclass(frozen=True, slots=True)
class LoginAccount:
    """The answers to a username and a password prompt; None if not known."""

    username: str | None = None
    password: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class LoginCredentials:
    """`layers` are the accounts of successive logins: a console server's, then the device's. Without any, the caller logs in.

    `enable_secret` is for the privileged mode, `answers` are for questions before the first prompt. `prepare`: turn paging off
    and widen the terminal after the login. `timeout_s` limits all of that.
    """

    layers: tuple[LoginAccount, ...] = ()
    enable_secret: SecretStr | None = None
    answers: tuple[QuestionAnswer, ...] = ()
    prepare: bool = True
    timeout_s: float = LOGIN_LIMIT_S

    def account(self, layer: int = -1) -> LoginAccount:
        """The account of a layer; the last is the device's."""
        return self.layers[layer] if self.layers else LoginAccount()

    def secret(self, name: SecretName, layer: int = -1) -> SecretStr | None:
        return self.enable_secret if name == "enable" else self.account(layer).password


#: Nothing is known, and nothing is typed.
NO_CREDENTIALS = LoginCredentials()

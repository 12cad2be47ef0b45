"""Dialogs that ask for credentials: the login and `enable`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest

from .device import DeviceAccount
from .line_editor import LineView, hide
from .terminal import DeviceTerminal

#: Wrong passwords before a dialog fails.
MAX_ATTEMPTS = 3

#: Username and password prompts of device families, with `{hostname}` and `{user}` filled in.
LOGIN_PROMPTS = {
    "unix": ("{hostname} login: ", "Password: "),
    "nokia": ("Login: ", "Password: "),
    "lower": ("username:", "password:"),
    "spaced": ("User Name:", "Password:"),
    "putty": ("login as: ", "{user}@{hostname}'s password: "),
}


def secrets_equal(given: str, secret: str) -> bool:
    return compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())


@dataclass(frozen=True, slots=True)
class LoginStyle:
    """Prompts of a login, with `{hostname}` and `{user}` filled in, and the visible part of a typed password."""

    username: str = "Username: "
    password: str = "Password: "
    password_view: LineView = hide
    hostname: str = ""

    def username_prompt(self) -> str:
        return self.username.replace("{hostname}", self.hostname)

    def password_prompt(self, user: str) -> str:
        return self.password.replace("{hostname}", self.hostname).replace("{user}", user)


IOS_LOGIN = LoginStyle()


class DeviceLogin:
    """Login dialog: asks for username and password, or the password only.

    Args:
        accept: Called with the username after the right password.
        refuse: Called after `MAX_ATTEMPTS` wrong passwords.
    """

    def __init__(
        self,
        terminal: DeviceTerminal,
        account: DeviceAccount,
        accept: Callable[[str], None],
        refuse: Callable[[], None],
        style: LoginStyle = IOS_LOGIN,
    ) -> None:
        self._terminal, self._account, self._style = terminal, account, style
        self._accept, self._refuse = accept, refuse
        self._failures = 0
        self._user = ""

    def begin(self) -> None:
        if self._account.username is None:
            self._ask_password()
        else:
            self._terminal.ask_line(self._style.username_prompt(), self._take_username, self.begin)

    def _ask_password(self) -> None:
        prompt, view = self._style.password_prompt(self._user), self._style.password_view
        self._terminal.ask_line(prompt, self._take_password, self.begin, view=view)

    def _take_username(self, line: str) -> None:
        self._user = line.strip()
        if self._user:
            self._ask_password()
        else:
            self.begin()

    def _take_password(self, line: str) -> None:
        is_known = self._account.username is None or secrets_equal(self._user, self._account.username)
        if is_known and secrets_equal(line, self._account.password):
            self._accept(self._user)
            return
        self._failures += 1
        is_last = self._failures == MAX_ATTEMPTS
        if self._account.username is not None:
            self._terminal.write("% Login invalid\n\n")
        elif is_last:
            self._terminal.write("% Bad passwords\n")
        if is_last:
            self._refuse()
        else:
            self.begin()


class EnableDialog:
    """Dialog of `enable`. Calls `accept` after the right secret, and ends the command in any case."""

    def __init__(
        self, terminal: DeviceTerminal, secret: str, accept: Callable[[], None], style: LoginStyle = IOS_LOGIN
    ) -> None:
        self._terminal, self._secret, self._accept, self._style = terminal, secret, accept, style
        self._failures = 0

    def begin(self) -> None:
        view = self._style.password_view
        self._terminal.ask_line("Password: ", self._take_password, self._terminal.finish, view=view)

    def _take_password(self, line: str) -> None:
        if secrets_equal(line, self._secret):
            self._accept()
            self._terminal.finish()
            return
        self._failures += 1
        if self._failures == MAX_ATTEMPTS:
            self._terminal.finish("% Bad secrets\n\n")
        else:
            self.begin()

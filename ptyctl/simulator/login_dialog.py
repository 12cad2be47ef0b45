"""The login dialog, and its wording in device families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .device import DeviceAccount
from .line_editor import LineView, hide
from .terminal import DeviceTerminal

#: Wrong passwords before a dialog fails.
MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class LoginStyle:
    """Prompts of a login, with `{hostname}` and `{user}` filled in, and the visible part of a typed password."""

    username: str = "Username: "
    password: str = "Password: "
    password_view: LineView = hide


IOS_LOGIN = LoginStyle()

#: Username and password prompts of device families.
LOGIN_PROMPTS = {
    "unix": ("{hostname} login: ", "Password: "),
    "nokia": ("Login: ", "Password: "),
    "lower": ("username:", "password:"),
    "spaced": ("User Name:", "Password:"),
    "putty": ("login as: ", "{user}@{hostname}'s password: "),
}


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
        hostname: str = "",
    ) -> None:
        self._terminal, self._account, self._style, self._hostname = terminal, account, style, hostname
        self._accept, self._refuse = accept, refuse
        self._failures = 0
        self._user = ""

    def begin(self) -> None:
        if self._account.username is None:
            self._ask_password()
        else:
            self._terminal.ask_line(self._style.username.format(hostname=self._hostname), self._take_username, self.begin)

    def _ask_password(self) -> None:
        prompt = self._style.password.format(hostname=self._hostname, user=self._user)
        self._terminal.ask_line(prompt, self._take_password, self.begin, view=self._style.password_view)

    def _take_username(self, line: str) -> None:
        self._user = line.strip()
        if self._user:
            self._ask_password()
        else:
            self.begin()

    def _take_password(self, line: str) -> None:
        if self._account.accepts(self._user, line):
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

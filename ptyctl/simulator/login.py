"""The dialogues that ask for a secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest

from .device import Account
from .editor import View
from .inputs import LineInput, unseen
from .terminal import Terminal

#: Wrong passwords until IOS gives up.
ATTEMPTS = 3


def same(given: str, secret: str) -> bool:
    return compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())


@dataclass(frozen=True, slots=True)
class LoginStyle:
    """How it is asked. `{hostname}` and `{user}` in a prompt are filled in; `view` is what is seen of a password."""

    username: str = "Username: "
    password: str = "Password: "
    view: View = unseen
    hostname: str = ""

    def asks_username(self) -> str:
        return self.username.replace("{hostname}", self.hostname)

    def asks_password(self, user: str) -> str:
        return self.password.replace("{hostname}", self.hostname).replace("{user}", user)


#: The prompts of an ordinary switch.
IOS_STYLE = LoginStyle()


class Login:
    """Asks for a username and a password, or only a password. `accept` gets the username; `refuse` ends the line."""

    def __init__(
        self,
        terminal: Terminal,
        account: Account,
        accept: Callable[[str], None],
        refuse: Callable[[], None],
        style: LoginStyle = IOS_STYLE,
    ) -> None:
        self._terminal, self._account, self._style = terminal, account, style
        self._accept, self._refuse = accept, refuse
        self._failures = 0
        self._user = ""

    def begin(self) -> None:
        if self._account.username is None:
            self._ask_password()
        else:
            reader = LineInput(self._terminal, self._style.asks_username(), self._username, self.begin)
            self._terminal.ask(reader.prompt, reader)

    def _ask_password(self) -> None:
        prompt = self._style.asks_password(self._user)
        reader = LineInput(self._terminal, prompt, self._password, self.begin, view=self._style.view)
        self._terminal.ask(reader.prompt, reader)

    def _username(self, line: str) -> None:
        self._user = line.strip()
        if self._user:
            self._ask_password()
        else:
            self.begin()

    def _password(self, line: str) -> None:
        known = self._account.username is None or same(self._user, self._account.username)
        if known and same(line, self._account.password):
            self._accept(self._user)
            return
        self._failures += 1
        is_last = self._failures == ATTEMPTS
        if self._account.username is not None:
            self._terminal.write("% Login invalid\n\n")
        elif is_last:
            self._terminal.write("% Bad passwords\n")
        if is_last:
            self._refuse()
        else:
            self.begin()


class EnableDialogue:
    """Asks for the enable secret. `accept` is called when it was right; else the command finishes with an error."""

    def __init__(self, terminal: Terminal, secret: str, accept: Callable[[], None], style: LoginStyle = IOS_STYLE) -> None:
        self._terminal, self._secret, self._accept, self._style = terminal, secret, accept, style
        self._failures = 0

    def begin(self) -> None:
        reader = LineInput(self._terminal, "Password: ", self._password, self._terminal.finish, view=self._style.view)
        self._terminal.ask(reader.prompt, reader)

    def _password(self, line: str) -> None:
        if same(line, self._secret):
            self._accept()
            self._terminal.finish()
            return
        self._failures += 1
        if self._failures == ATTEMPTS:
            self._terminal.finish("% Bad secrets\n\n")
        else:
            self.begin()

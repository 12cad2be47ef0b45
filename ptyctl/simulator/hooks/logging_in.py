"""How a login asks, and what comes between the password and the first prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ptyctl.simulator.inputs import EnterInput, KeyInput, LineInput, unseen
from ptyctl.simulator.keys import Key
from ptyctl.simulator.login import LoginStyle
from ptyctl.simulator.pager import Pager

from .hook import Hook, Then

if TYPE_CHECKING:
    from ptyctl.simulator.console import Console

#: The shapes of a username and a password prompt. `{hostname}` and `{user}` are filled in.
LOGIN_PROMPTS = {
    "unix": ("{hostname} login: ", "Password: "),
    "nokia": ("Login: ", "Password: "),
    "lower": ("username:", "password:"),
    "spaced": ("User Name:", "Password:"),
    "putty": ("login as: ", "{user}@{hostname}'s password: "),
}

LICENCE = "".join(f"{number}. This licence is for practice, and gives no right to anything else.\n" for number in range(1, 41))


class LoginPrompts(Hook):
    """Username and password are asked for in other words."""

    def login(self, console: Console, style: LoginStyle) -> LoginStyle:
        username, password = LOGIN_PROMPTS[str(self.value)]
        return replace(style, username=username, password=password)


class EchoesPassword(Hook):
    """What is typed at a password prompt is shown."""

    def login(self, console: Console, style: LoginStyle) -> LoginStyle:
        return replace(style, view=str)


class BareCrAfterPassword(Hook):
    """Nothing follows the password until Enter is pressed once more."""

    def logged_in(self, console: Console, then: Then) -> bool:
        console.input = EnterInput(then)
        return True


class LastLogin(Hook):
    """Tells of the last login, in words that look like a login prompt."""

    def logged_in(self, console: Console, then: Then) -> bool:
        console.write("\nLast login: Mon Mar  1 00:00:00 1993 from 192.0.2.77\n")
        return False


class ChangePassword(Hook):
    """The password is too old, and changing it is offered."""

    def logged_in(self, console: Console, then: Then) -> bool:
        def answer(line: str) -> None:
            if line.strip().lower() in ("y", "yes"):
                _new_password(console, ("Enter new password:", "Confirm new password:"), then)
            else:
                then()

        question = "\nWarning: The password needs to be changed. Change now? [Y/N]:"
        console.ask(question, LineInput(console, question, answer, then))
        return True


class NewPassword(Hook):
    """A new password is asked for; Ctrl-C keeps the old one."""

    def logged_in(self, console: Console, then: Then) -> bool:
        console.write("\nChange your password, or press Ctrl-C to skip\n\n")
        _new_password(console, ("new password> ", "repeat new password> "), then)
        return True


class LicenceQuestion(Hook):
    """The licence is offered for reading: Enter and y show it, n does not."""

    def logged_in(self, console: Console, then: Then) -> bool:
        def answer(key: Key | str) -> None:
            console.write("\n")
            if key in (Key.ENTER, "y", "Y"):
                pager = Pager(LICENCE)
                console.write(pager.page(console.length, console.width))
                console.more(pager, then)
            else:
                then()

        console.ask("Do you want to see the software license? [Y/n]: ", KeyInput(answer))
        return True


class ContinueAfterLogin(Hook):
    """Any key is wanted before the first prompt."""

    def logged_in(self, console: Console, then: Then) -> bool:
        def pressed(_key: object) -> None:
            console.write("\n")
            then()

        console.ask("\nPress any key to continue", KeyInput(pressed))
        return True


def _new_password(console: Console, prompts: tuple[str, str], then: Then) -> None:
    """Asks twice for a new password of the device's one account."""

    def first(new: str) -> None:
        def second(again: str) -> None:
            if new and new == again:
                console.device.account = replace(console.device.account, password=new)
            else:
                console.write("Error: The password was not changed.\n")
            then()

        console.ask(prompts[1], LineInput(console, prompts[1], second, then, view=unseen))

    console.ask(prompts[0], LineInput(console, prompts[0], first, then, view=unseen))

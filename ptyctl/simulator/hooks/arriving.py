"""What somebody finds who connects to a console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptyctl.simulator.device import Account
from ptyctl.simulator.inputs import ConfirmInput, EnterInput, KeyInput, LineInput
from ptyctl.simulator.login import Login
from ptyctl.simulator.modes import Mode
from ptyctl.simulator.pager import Pager
from ptyctl.simulator.shows import running_config

from .hook import Hook, Then

if TYPE_CHECKING:
    from ptyctl.simulator.console import Console

#: Who was there before and did not tidy up.
PREVIOUS_USER = "operator"

#: What the previous user has typed, and not sent.
HALF_TYPED = "show interf"


class ConsoleServer(Hook):
    """A console server that wants a login of its own. The value is its `username:password`."""

    def start(self, console: Console, then: Then) -> bool:
        username, _, password = str(self.value).partition(":")

        def accept(_user: str) -> None:
            console.write("\nConnected to port 7. Escape character is '^]'.\n")
            then()

        console.write("\nPractice console server\n\n")
        Login(console, Account(username, password), accept, console.log_out).begin()
        return True


class LeftOverMore(Hook):
    """The previous user has left in the middle of `show running-config`."""

    def start(self, console: Console, then: Then) -> bool:
        console.take_over(PREVIOUS_USER)
        pager = Pager(running_config(console.device, console.now))
        pager.page(console.length, console.width)
        console.more(pager, console.prompt, visible=not console.quirks.silent)
        return True


class LeftOverQuestion(Hook):
    """The previous user was asked something, and has left."""

    def start(self, console: Console, then: Then) -> bool:
        console.take_over(PREVIOUS_USER)
        if not console.quirks.silent:
            console.write("Clear logging buffer? [y/n]: ")
        console.input = ConfirmInput(console, lambda _yes: console.prompt())
        return True


class LeftOverConfig(Hook):
    """The previous user has left in configuration mode, perhaps with a line half typed."""

    def start(self, console: Console, then: Then) -> bool:
        console.take_over(PREVIOUS_USER)
        console.mode, console.subject = Mode.CONFIG_IF, "GigabitEthernet1/0/1"
        console.prompt(HALF_TYPED if console.quirks.left_over_line else "", visible=not console.quirks.silent)
        return True


class LeftOverLine(Hook):
    """The previous user has left a line half typed."""

    def start(self, console: Console, then: Then) -> bool:
        console.take_over(PREVIOUS_USER)
        console.prompt(HALF_TYPED, visible=not console.quirks.silent)
        return True


class InitialSetup(Hook):
    """A switch as it comes out of its box: it offers to be set up."""

    QUESTION = "Would you like to enter the initial configuration dialog? [yes/no]: "

    def start(self, console: Console, then: Then) -> bool:
        console.write("\n         --- System Configuration Dialog ---\n\n")
        self._ask(console, then)
        return True

    def _ask(self, console: Console, then: Then) -> None:
        def answer(line: str) -> None:
            match line.strip().lower():
                case "no" | "n":
                    console.write("\n\nPress RETURN to get started!\n\n")
                    console.input = EnterInput(then)
                case "yes" | "y":
                    self._set_up(console, then)
                case _:
                    console.write("% Please answer 'yes' or 'no'.\n")
                    self._ask(console, then)

        reader = LineInput(console, self.QUESTION, answer, lambda: self._ask(console, then))
        console.ask(reader.prompt, reader)

    def _set_up(self, console: Console, then: Then) -> None:
        def answer(line: str) -> None:
            console.device.running.hostname = line.strip() or console.device.hostname
            then()

        reader = LineInput(console, f"  Enter host name [{console.device.hostname}]: ", answer, then)
        console.ask(reader.prompt, reader)


class Silent(Hook):
    """The console sleeps."""

    def start(self, console: Console, then: Then) -> bool:
        console.sleep(then)
        return True


class PressReturn(Hook):
    """The console says at once that it waits for Enter."""

    def start(self, console: Console, then: Then) -> bool:
        console.announce(then)
        return True


class PressAnyKey(Hook):
    """The console wants any key before it asks who is there, and has set the screen up for that."""

    def start(self, console: Console, then: Then) -> bool:
        def pressed(_key: object) -> None:
            console.write("\x1b[2J\x1b[1;1H")
            then()

        console.write("\x1b[1;24r\x1b[1;1H\x1b[2JSimulated switch J9999A\n\nPress any key to continue")
        console.input = KeyInput(pressed)
        return True


class PromptInBanner(Hook):
    """The banner has lines that end like prompts, one of them exactly like the real one."""

    def banner(self, console: Console, text: str) -> str:
        name = console.device.hostname
        rule = "#" * 60
        lines = (rule, f"# {name}> authorised users only #", f"{name}#", f"{name}>", "Password: never shown here", rule)
        return text + "\n".join(lines) + "\n"

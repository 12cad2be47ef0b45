"""Quirks of the session: the state of the line when a client connects, and questions after the login.

Each function has the name of its quirk, which `Quirks` describes, and calls `then` to continue.
"""

from __future__ import annotations

from collections.abc import Callable

from .console import CommandMode, Continuation, DeviceConsole
from .device import DeviceAccount
from .line_editor import hide
from .login_dialog import DeviceLogin
from .pager import PagedText
from .show_output import running_config

#: User of the open session that a new client finds.
PREVIOUS_USER = "operator"

#: Unfinished command line of the previous user.
HALF_TYPED = "show interf"

LICENCE = "".join(f"{number}. This licence is for tests, and gives no right to anything else.\n" for number in range(1, 41))

Dialog = Callable[[DeviceConsole, Continuation], None]


def console_server(console: DeviceConsole, then: Continuation) -> None:
    username, _, password = console.quirks.console_server.partition(":")

    def accept(_user: str) -> None:
        console.write("\nConnected to port 7. Escape character is '^]'.\n")
        then()

    console.write("\nSimulated console server\n\n")
    DeviceLogin(console, DeviceAccount(username, password), accept, console.log_out).begin()


def left_over_more(console: DeviceConsole, then: Continuation) -> None:
    console.resume_as(PREVIOUS_USER)
    paged = PagedText(running_config(console.device, console.now))
    paged.next_page(console.length, console.width)
    console.show_pager_prompt(paged, console.show_prompt, visible=not console.quirks.silent)


def left_over_question(console: DeviceConsole, then: Continuation) -> None:
    console.resume_as(PREVIOUS_USER)
    question = "" if console.quirks.silent else "Clear logging buffer? [y/n]: "
    console.ask_confirmation(question, lambda _yes: console.show_prompt())


def left_over_config(console: DeviceConsole, then: Continuation) -> None:
    console.resume_as(PREVIOUS_USER)
    console.enter_mode(CommandMode.CONFIG_IF, "GigabitEthernet1/0/1")
    console.show_prompt(HALF_TYPED if console.quirks.left_over_line else "", visible=not console.quirks.silent)


def left_over_line(console: DeviceConsole, then: Continuation) -> None:
    console.resume_as(PREVIOUS_USER)
    console.show_prompt(HALF_TYPED, visible=not console.quirks.silent)


def initial_setup(console: DeviceConsole, then: Continuation) -> None:
    def ask() -> None:
        console.ask_line("Would you like to enter the initial configuration dialog? [yes/no]: ", answer, ask)

    def answer(line: str) -> None:
        match line.strip().lower():
            case "no" | "n":
                console.write("\n\nPress RETURN to get started!\n\n")
                console.wait_for_enter(then)
            case "yes" | "y":
                console.ask_line(f"  Enter host name [{console.device.hostname}]: ", set_hostname, then)
            case _:
                console.write("% Please answer 'yes' or 'no'.\n")
                ask()

    def set_hostname(line: str) -> None:
        console.device.rename(line.strip() or console.device.hostname)
        then()

    console.write("\n         --- System Configuration Dialog ---\n\n")
    ask()


def silent(console: DeviceConsole, then: Continuation) -> None:
    console.wait_for_enter(lambda: console.announce(then))


def press_return(console: DeviceConsole, then: Continuation) -> None:
    console.announce(then)


def press_any_key(console: DeviceConsole, then: Continuation) -> None:
    def pressed(_key: object) -> None:
        console.write("\x1b[2J\x1b[1;1H")
        then()

    console.ask_key("\x1b[1;24r\x1b[1;1H\x1b[2JSimulated switch J9999A\n\nPress any key to continue", pressed)


def bare_cr_after_password(console: DeviceConsole, then: Continuation) -> None:
    console.wait_for_enter(then)


def last_login(console: DeviceConsole, then: Continuation) -> None:
    console.write("\nLast login: Mon Mar  1 00:00:00 1993 from 192.0.2.77\n")
    then()


def change_password(console: DeviceConsole, then: Continuation) -> None:
    def answer(line: str) -> None:
        if line.strip().lower() in ("y", "yes"):
            _ask_new_password(console, "Enter new password:", "Confirm new password:", then)
        else:
            then()

    console.ask_line("\nWarning: The password needs to be changed. Change now? [Y/N]:", answer, then)


def new_password(console: DeviceConsole, then: Continuation) -> None:
    console.write("\nChange your password, or press Ctrl-C to skip\n\n")
    _ask_new_password(console, "new password> ", "repeat new password> ", then)


def _ask_new_password(console: DeviceConsole, prompt: str, second_prompt: str, then: Continuation) -> None:
    def repeat(new: str) -> None:
        def compare(again: str) -> None:
            if new and new == again:
                console.device.change_password(new)
            else:
                console.write("Error: The password was not changed.\n")
            then()

        console.ask_line(second_prompt, compare, then, view=hide)

    console.ask_line(prompt, repeat, then, view=hide)


def licence(console: DeviceConsole, then: Continuation) -> None:
    console.ask_confirmation(
        "Do you want to see the software license? [Y/n]: ", lambda yes: console.show_paged(LICENCE if yes else "", then)
    )


def continue_after_login(console: DeviceConsole, then: Continuation) -> None:
    def pressed(_key: object) -> None:
        console.write("\n")
        then()

    console.ask_key("\nPress any key to continue", pressed)


#: In the order of the fields of `Quirks`.
CONNECT_DIALOGS: tuple[Dialog, ...] = (
    console_server,
    left_over_more,
    left_over_question,
    left_over_config,
    left_over_line,
    initial_setup,
    silent,
    press_return,
    press_any_key,
)
LOGIN_DIALOGS: tuple[Dialog, ...] = (
    bare_cr_after_password,
    last_login,
    change_password,
    new_password,
    licence,
    continue_after_login,
)

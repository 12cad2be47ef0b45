"""Quirks of the session: state of the console on connect, login, prompt, and questions of commands.

`Quirks` describes what each of them does. `HOOKS` maps its field names to the classes.
"""

from __future__ import annotations

from dataclasses import replace

from .console import CommandMode, Continuation, DeviceConsole, QuirkHook
from .device import DeviceAccount
from .keys import Key
from .line_editor import hide
from .login_dialog import LOGIN_PROMPTS, DeviceLogin, LoginStyle
from .output_quirks import EveryNthCommand
from .pager import PagedText
from .show_output import running_config

#: User of the open session that a new client finds.
PREVIOUS_USER = "operator"

#: Unfinished command line of the previous user.
HALF_TYPED = "show interf"

LICENCE = "".join(f"{number}. This licence is for tests, and gives no right to anything else.\n" for number in range(1, 41))

#: Screen height where the window size is unknown.
DEFAULT_ROWS = 24


class ConsoleServerLogin(QuirkHook):
    def on_connect(self, then: Continuation) -> bool:
        username, _, password = str(self.value).partition(":")

        def accept(_user: str) -> None:
            self.console.write("\nConnected to port 7. Escape character is '^]'.\n")
            then()

        self.console.write("\nSimulated console server\n\n")
        DeviceLogin(self.console, DeviceAccount(username, password), accept, self.console.log_out).begin()
        return True


class LeftOverMore(QuirkHook):
    def on_connect(self, then: Continuation) -> bool:
        console = self.console
        console.resume_as(PREVIOUS_USER)
        paged = PagedText(running_config(console.device, console.now))
        paged.next_page(console.length, console.width)
        console.show_pager_prompt(paged, console.show_prompt, visible=not console.quirks.silent)
        return True


class LeftOverQuestion(QuirkHook):
    def on_connect(self, then: Continuation) -> bool:
        self.console.resume_as(PREVIOUS_USER)
        question = "" if self.console.quirks.silent else "Clear logging buffer? [y/n]: "
        self.console.ask_confirmation(question, lambda _yes: self.console.show_prompt())
        return True


class LeftOverConfig(QuirkHook):
    def on_connect(self, then: Continuation) -> bool:
        quirks = self.console.quirks
        self.console.resume_as(PREVIOUS_USER)
        self.console.enter_mode(CommandMode.CONFIG_IF, "GigabitEthernet1/0/1")
        self.console.show_prompt(HALF_TYPED if quirks.left_over_line else "", visible=not quirks.silent)
        return True


class LeftOverLine(QuirkHook):
    def on_connect(self, then: Continuation) -> bool:
        self.console.resume_as(PREVIOUS_USER)
        self.console.show_prompt(HALF_TYPED, visible=not self.console.quirks.silent)
        return True


class InitialSetup(QuirkHook):
    QUESTION = "Would you like to enter the initial configuration dialog? [yes/no]: "

    def on_connect(self, then: Continuation) -> bool:
        self.console.write("\n         --- System Configuration Dialog ---\n\n")
        self._ask(then)
        return True

    def _ask(self, then: Continuation) -> None:
        def answer(line: str) -> None:
            match line.strip().lower():
                case "no" | "n":
                    self.console.write("\n\nPress RETURN to get started!\n\n")
                    self.console.wait_for_enter(then)
                case "yes" | "y":
                    self._ask_hostname(then)
                case _:
                    self.console.write("% Please answer 'yes' or 'no'.\n")
                    self._ask(then)

        self.console.ask_line(self.QUESTION, answer, lambda: self._ask(then))

    def _ask_hostname(self, then: Continuation) -> None:
        device = self.console.device

        def answer(line: str) -> None:
            device.hostname = line.strip() or device.hostname
            then()

        self.console.ask_line(f"  Enter host name [{device.hostname}]: ", answer, then)


class SilentUntilEnter(QuirkHook):
    def on_connect(self, then: Continuation) -> bool:
        self.console.wait_for_enter(lambda: self.console.announce(then))
        return True


class PressReturn(QuirkHook):
    def on_connect(self, then: Continuation) -> bool:
        self.console.announce(then)
        return True


class PressAnyKey(QuirkHook):
    SCREEN = "\x1b[1;24r\x1b[1;1H\x1b[2JSimulated switch J9999A\n\nPress any key to continue"

    def on_connect(self, then: Continuation) -> bool:
        def pressed(_key: object) -> None:
            self.console.write("\x1b[2J\x1b[1;1H")
            then()

        self.console.ask_key(self.SCREEN, pressed)
        return True


class PromptInBanner(QuirkHook):
    def banner(self, text: str) -> str:
        name = self.console.device.hostname
        rule = "#" * 60
        lines = (rule, f"# {name}> authorised users only #", f"{name}#", f"{name}>", "Password: never shown here", rule)
        return text + "\n".join(lines) + "\n"


class LoginPrompts(QuirkHook):
    def login_style(self, style: LoginStyle) -> LoginStyle:
        username, password = LOGIN_PROMPTS[str(self.value)]
        return replace(style, username=username, password=password)


class EchoesPassword(QuirkHook):
    def login_style(self, style: LoginStyle) -> LoginStyle:
        return replace(style, password_view=str)


class BareCrAfterPassword(QuirkHook):
    def after_login(self, then: Continuation) -> bool:
        self.console.wait_for_enter(then)
        return True


class LastLogin(QuirkHook):
    def after_login(self, then: Continuation) -> bool:
        self.console.write("\nLast login: Mon Mar  1 00:00:00 1993 from 192.0.2.77\n")
        return False


class ChangePassword(QuirkHook):
    QUESTION = "\nWarning: The password needs to be changed. Change now? [Y/N]:"

    def after_login(self, then: Continuation) -> bool:
        def answer(line: str) -> None:
            if line.strip().lower() in ("y", "yes"):
                _ask_new_password(self.console, ("Enter new password:", "Confirm new password:"), then)
            else:
                then()

        self.console.ask_line(self.QUESTION, answer, then)
        return True


class NewPassword(QuirkHook):
    def after_login(self, then: Continuation) -> bool:
        self.console.write("\nChange your password, or press Ctrl-C to skip\n\n")
        _ask_new_password(self.console, ("new password> ", "repeat new password> "), then)
        return True


def _ask_new_password(console: DeviceConsole, prompts: tuple[str, str], then: Continuation) -> None:
    def first(new: str) -> None:
        def second(again: str) -> None:
            if new and new == again:
                console.device.change_password(new)
            else:
                console.write("Error: The password was not changed.\n")
            then()

        console.ask_line(prompts[1], second, then, view=hide)

    console.ask_line(prompts[0], first, then, view=hide)


class LicenceQuestion(QuirkHook):
    def after_login(self, then: Continuation) -> bool:
        def answer(key: Key | str) -> None:
            self.console.write("\n")
            if key in (Key.ENTER, "y", "Y"):
                self.console.show_paged(LICENCE, then)
            else:
                then()

        self.console.ask_key("Do you want to see the software license? [Y/n]: ", answer)
        return True


class ContinueAfterLogin(QuirkHook):
    def after_login(self, then: Continuation) -> bool:
        def pressed(_key: object) -> None:
            self.console.write("\n")
            then()

        self.console.ask_key("\nPress any key to continue", pressed)
        return True


class PromptPrefix(QuirkHook):
    def prompt_text(self, text: str) -> str:
        return f"HRP_A{text}"


class UnsavedMark(QuirkHook):
    def prompt_text(self, text: str) -> str:
        return f"*{text}" if self.console.device.modified else text


class PromptTime(QuirkHook):
    def prompt_text(self, text: str) -> str:
        return f"{self.console.device.clock(self.console.now).split()[0].lstrip('*')} {text}"


class TwoLinePrompt(QuirkHook):
    def rendered_prompt(self, prompt: str) -> str:
        return ("\n[edit]\n" if self.console.mode.is_config else "\n{master:0}\n") + prompt


class ColouredPrompt(QuirkHook):
    def rendered_prompt(self, prompt: str) -> str:
        head, line_end, last = prompt.rpartition("\n")
        return f"{head}{line_end}\x1b[1;32m{last}\x1b[0m"


class CursorMoves(QuirkHook):
    def rendered_prompt(self, prompt: str) -> str:
        # CUP and EL (ECMA-48), DECTCEM (DEC VT510).
        row, column = self.console.length or DEFAULT_ROWS, len(self.console.prompt_text) + 1
        return f"\x1b[{row};1H\x1b[?25h\x1b[{row};1H\x1b[2K{prompt}\x1b[{row};{column}H\x1b[?25h"


class BracketedPaste(QuirkHook):
    def rendered_prompt(self, prompt: str) -> str:
        return f"\x1b[?2004h{prompt}"

    def on_enter(self) -> None:
        self.console.write("\x1b[?2004l\r")


class RenamedEvery(EveryNthCommand):
    def command_output(self, text: str) -> str:
        if self.is_due():
            device = self.console.device
            renamed = device.hostname.endswith("-new")
            device.hostname = device.hostname.removesuffix("-new") if renamed else f"{device.hostname}-new"
        return text


class SyslogAfterPrompt(EveryNthCommand):
    _due = False

    def command_output(self, text: str) -> str:
        self._due = self.is_due()
        return text

    def after_prompt(self) -> None:
        if self._due:
            self._due = False
            self.console.write_lines(self.console.record(self.console.device.next_sample_event()))


class ConfirmsSave(QuirkHook):
    QUESTION = "The current configuration will be written to the device. Continue? [y/n]: "

    def before_save(self, then: Continuation) -> bool:
        def answer(line: str) -> None:
            match line.strip().lower():
                case "y" | "yes":
                    then()
                case "n" | "no":
                    self.console.finish()
                case _:
                    self.before_save(then)

        self.console.ask_line(self.QUESTION, answer, self.console.finish)
        return True


class AsksToCommit(QuirkHook):
    QUESTION = "Uncommitted changes found, commit them before exiting(yes/no/cancel)? [cancel]: "

    def before_config_exit(self, then: Continuation) -> bool:
        device = self.console.device
        if not device.modified:
            return False

        def answer(line: str) -> None:
            match line.strip().lower():
                case "yes" | "y":
                    device.save()
                    then()
                case "no" | "n":
                    device.revert()
                    then()
                case _:
                    self.console.finish()

        self.console.ask_line(self.QUESTION, answer, self.console.finish)
        return True


class TellsPaging(QuirkHook):
    def paging_reply(self, length: int) -> str:
        return "Pagination disabled.\n" if length == 0 else f"Pagination set to {length} lines.\n"


HOOKS: dict[str, type[QuirkHook]] = {
    "console_server": ConsoleServerLogin,
    "left_over_more": LeftOverMore,
    "left_over_question": LeftOverQuestion,
    "left_over_config": LeftOverConfig,
    "left_over_line": LeftOverLine,
    "initial_setup": InitialSetup,
    "silent": SilentUntilEnter,
    "press_return": PressReturn,
    "press_any_key": PressAnyKey,
    "prompt_in_banner": PromptInBanner,
    "login_prompts": LoginPrompts,
    "echoes_password": EchoesPassword,
    "bare_cr_after_password": BareCrAfterPassword,
    "last_login": LastLogin,
    "change_password": ChangePassword,
    "new_password": NewPassword,
    "licence": LicenceQuestion,
    "continue_after_login": ContinueAfterLogin,
    "prompt_prefix": PromptPrefix,
    "unsaved_mark": UnsavedMark,
    "prompt_time": PromptTime,
    "two_line_prompt": TwoLinePrompt,
    "coloured_prompt": ColouredPrompt,
    "cursor_moves": CursorMoves,
    "bracketed_paste": BracketedPaste,
    "renamed_every": RenamedEvery,
    "syslog_after_prompt": SyslogAfterPrompt,
    "confirms_save": ConfirmsSave,
    "asks_to_commit": AsksToCommit,
    "tells_paging": TellsPaging,
}

"""The console with all commands and quirks. `Quirks` describes the quirks; the dialogs are in `session_quirks`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from .commands import COMMANDS
from .console import Continuation, DeviceConsole, PacedOutput
from .login_dialog import LOGIN_PROMPTS, LoginStyle
from .session_quirks import CONNECT_DIALOGS, LOGIN_DIALOGS, Dialog
from .terminal import DropConnection

#: Screen height where the window size is unknown.
DEFAULT_ROWS = 24

#: Number of columns that `echo_wraps` shifts the line.
SHIFT = 10

#: Outputs with fewer lines are not interrupted by `output_gaps`.
MIN_LINES = 4

#: Pieces that a slow line sends per second.
PIECES_PER_SECOND = 50


class QuirkyConsole(DeviceConsole):
    """Console of the switch. Quirks that act at the same point apply in the order of the fields of `Quirks`."""

    commands = COMMANDS

    #: Number of finished commands.
    _finished = 0
    _syslog_is_due = False

    # Connection and login

    @property
    def banner(self) -> str:
        if not self.quirks.prompt_in_banner:
            return super().banner
        name = self.device.hostname
        rule = "#" * 60
        lines = (rule, f"# {name}> authorised users only #", f"{name}#", f"{name}>", "Password: never shown here", rule)
        return super().banner + "\n".join(lines) + "\n"

    @property
    def login_style(self) -> LoginStyle:
        style = super().login_style
        if self.quirks.login_prompts:
            username, password = LOGIN_PROMPTS[self.quirks.login_prompts]
            style = LoginStyle(username, password)
        return replace(style, password_view=str) if self.quirks.echoes_password else style

    def begin_session(self) -> None:
        self._run_dialogs(CONNECT_DIALOGS, self.greet)

    def begin_commands(self) -> None:
        self._run_dialogs(LOGIN_DIALOGS, self.show_prompt)

    def _run_dialogs(self, dialogs: tuple[Dialog, ...], then: Continuation) -> None:
        for dialog in reversed(dialogs):
            if getattr(self.quirks, dialog.__name__):
                then = partial(dialog, self, then)
        then()

    # Prompt and command line

    @property
    def prompt_text(self) -> str:
        text = super().prompt_text
        if self.quirks.prompt_prefix:
            text = f"HRP_A{text}"
        if self.quirks.unsaved_mark and self.device.modified:
            text = f"*{text}"
        return f"{self._time().split()[0]} {text}" if self.quirks.prompt_time else text

    @property
    def rendered_prompt(self) -> str:
        prompt = self.prompt_text
        if self.quirks.two_line_prompt:
            prompt = ("\n[edit]\n" if self.mode.is_config else "\n{master:0}\n") + prompt
        if self.quirks.coloured_prompt:
            head, line_end, last = prompt.rpartition("\n")
            prompt = f"{head}{line_end}\x1b[1;32m{last}\x1b[0m"
        if self.quirks.cursor_moves:
            # CUP and EL (ECMA-48), DECTCEM (DEC VT510).
            row, column = self.length or DEFAULT_ROWS, len(self.prompt_text) + 1
            prompt = f"\x1b[{row};1H\x1b[?25h\x1b[{row};1H\x1b[2K{prompt}\x1b[{row};{column}H\x1b[?25h"
        return f"\x1b[?2004h{prompt}" if self.quirks.bracketed_paste else prompt

    def after_prompt(self) -> None:
        if self._syslog_is_due:
            self._syslog_is_due = False
            self.write_lines(self._record_sample_event())

    def visible_line(self, line: str) -> str:
        columns = self.width - len(self.prompt_text) - 1
        if self.quirks.echo_wraps and self.width and len(line) > columns:
            shifts = -(-(len(line) - columns) // SHIFT)
            line = "$" + line[shifts * SHIFT + 1 :]
        if self.quirks.echo_truncates and self.width and len(line) > columns:
            line = line[: max(0, columns - 1)] + "$"
        return line

    def echo(self, before: str, after: str) -> str:
        quirks, width = self.quirks, self.width
        if quirks.echo_repaints:
            return f"\r{self.rendered_prompt.rpartition(chr(10))[2]}{after}\x1b[K"
        if not (quirks.echo_breaks or quirks.echo_doubles) or not width or not after.startswith(before):
            return super().echo(before, after)
        text = ""
        for column, character in enumerate(after[len(before) :], len(self.prompt_text) + len(before)):
            if column % width == 0:
                text += f"{character}\r" if quirks.echo_doubles else "\n"
            text += character
        return text

    def on_enter(self) -> None:
        if self.quirks.bracketed_paste:
            self.write("\x1b[?2004l\r")

    # Commands

    def command_output(self, text: str) -> str:
        quirks, device = self.quirks, self.device
        self._finished += 1
        if self._is_due(quirks.renamed_every):
            name = device.hostname.removesuffix("-new")
            device.rename(f"{name}-new" if name == device.hostname else name)
        self._syslog_is_due = self._is_due(quirks.syslog_after_prompt)
        if quirks.look_alikes and text:
            text = _insert_in_middle(text, self._look_alikes())
        if quirks.time_before_output:
            text = f"{self._time()}\n{text}"
        if self._is_due(quirks.syslog_every):
            text = _insert_in_middle(text, [self._record_sample_event()])
        if self._is_due(quirks.drop_line_after):
            middle = len(text) // 2
            self.write(text[:middle])
            self.perform(DropConnection())
            text = text[middle:]
        return text

    def paging_reply(self, length: int) -> str:
        if not self.quirks.tells_paging:
            return ""
        return "Pagination disabled.\n" if length == 0 else f"Pagination set to {length} lines.\n"

    def confirm_save(self, save: Continuation) -> None:
        def answer(line: str) -> None:
            match line.strip().lower():
                case "y" | "yes":
                    save()
                case "n" | "no":
                    self.finish()
                case _:
                    self.confirm_save(save)

        if self.quirks.confirms_save:
            question = "The current configuration will be written to the device. Continue? [y/n]: "
            self.ask_line(question, answer, self.finish)
        else:
            save()

    def confirm_config_exit(self, leave: Continuation) -> None:
        def answer(line: str) -> None:
            match line.strip().lower():
                case "yes" | "y":
                    self.device.save()
                    leave()
                case "no" | "n":
                    self.device.revert()
                    leave()
                case _:
                    self.finish()

        if self.quirks.asks_to_commit and self.device.modified:
            question = "Uncommitted changes found, commit them before exiting(yes/no/cancel)? [cancel]: "
            self.ask_line(question, answer, self.finish)
        else:
            leave()

    def _is_due(self, every: int) -> bool:
        return every > 0 and self._finished % every == 0

    def _time(self) -> str:
        return self.device.clock(self.now).lstrip("*")

    def _record_sample_event(self) -> str:
        return self.record(self.device.next_sample_event())

    def _look_alikes(self) -> tuple[str, ...]:
        name = self.device.hostname
        own = (self.prompt_text, f"{name}>", f"{name}#", f"{name}(config)# ", self.pager_style.prompt)
        foreign = ("<edge-1>", "[V200R019C00SPC500]", "admin@r1> ", "[edit]", "RP/0/RP0/CPU0:r1(config)#", "$ ")
        return (*own, *foreign, "Password: ", "Last login: today", "Overwrite? [y/n]: ")

    # Bytes on the line

    def encode(self, text: str) -> bytes:
        data = super().encode(text)
        if self.quirks.nul_padding:
            more = self.pager_style.prompt.encode()
            data = data.replace(b"\r\n", b"\r\n\0\0").replace(more, more + b"\0")
        return data

    def pace(self, data: bytes) -> list[PacedOutput]:
        pieces = super().pace(data)
        if self.quirks.output_gaps and data.count(b"\n") >= MIN_LINES:
            half = len(data) // 2
            middle = data.find(b"\n", half) + 1 or half
            pieces = [(data[:middle], self.quirks.output_gaps), (data[middle:], 0.0)]
        rate = self.quirks.slow_output
        if not rate:
            return pieces
        size = max(1, int(rate / PIECES_PER_SECOND))
        slowed = []
        for piece, pause in pieces:
            parts = [piece[start : start + size] for start in range(0, len(piece), size)]
            slowed += [(part, len(part) / rate) for part in parts]
            slowed[-1] = (slowed[-1][0], slowed[-1][1] + pause)
        return slowed


def _insert_in_middle(text: str, lines: Iterable[str]) -> str:
    own = text.splitlines(keepends=True)
    middle = len(own) // 2
    return "".join([*own[:middle], *(f"{line}\n" for line in lines), *own[middle:]])

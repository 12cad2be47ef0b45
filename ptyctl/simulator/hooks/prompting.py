"""What a prompt looks like, and what comes behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .hook import EveryNth, Hook

if TYPE_CHECKING:
    from ptyctl.simulator.console import Console

#: The screen's height where the window's is not known.
ROWS = 24


class PromptPrefix(Hook):
    """A firewall's prompt begins with its part in a pair."""

    def prompt_text(self, console: Console, text: str) -> str:
        return f"HRP_A{text}"


class UnsavedMark(Hook):
    """A star in front of the prompt as long as something is not saved."""

    def prompt_text(self, console: Console, text: str) -> str:
        return f"*{text}" if console.device.modified else text


class PromptTime(Hook):
    """The prompt has the time in it, and so is never the same twice."""

    def prompt_text(self, console: Console, text: str) -> str:
        return f"{console.device.time(console.now).split()[0].lstrip('*')} {text}"


class TwoLinePrompt(Hook):
    """A line above the prompt that tells the mode."""

    def painted(self, console: Console, prompt: str) -> str:
        return ("\n[edit]\n" if console.mode.configures else "\n{master:0}\n") + prompt


class ColouredPrompt(Hook):
    """The prompt is green; its colour ends behind its last character."""

    def painted(self, console: Console, prompt: str) -> str:
        head, line_end, last = prompt.rpartition("\n")
        return f"{head}{line_end}\x1b[1;32m{last}\x1b[0m"


class CursorMoves(Hook):
    """The prompt is put on the last row by cursor addressing, and the cursor behind it (ECMA-48, CUP and EL)."""

    def painted(self, console: Console, prompt: str) -> str:
        row, column = console.length or ROWS, len(console.prompt_text) + 1
        return f"\x1b[{row};1H\x1b[?25h\x1b[{row};1H\x1b[2K{prompt}\x1b[{row};{column}H\x1b[?25h"


class BracketedPaste(Hook):
    """The prompt turns bracketed paste on, and Enter turns it off."""

    def painted(self, console: Console, prompt: str) -> str:
        return f"\x1b[?2004h{prompt}"

    def entered(self, console: Console) -> None:
        console.write("\x1b[?2004l\r")


class RenamedEvery(EveryNth):
    """Somebody else gives the switch another name while each Nth command runs."""

    def command_output(self, console: Console, text: str) -> str:
        if self.is_due():
            running = console.device.running
            running.hostname = (
                running.hostname.removesuffix("-new") if running.hostname.endswith("-new") else f"{running.hostname}-new"
            )
        return text


class SyslogAfterPrompt(EveryNth):
    """A syslog line right behind the prompt that follows each Nth command. The prompt does not come back by itself."""

    _due = False

    def command_output(self, console: Console, text: str) -> str:
        self._due = self.is_due()
        return text

    def prompted(self, console: Console) -> None:
        if self._due:
            self._due = False
            console.show_log(console.record(console.device.chatter()))

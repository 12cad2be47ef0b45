"""How a command line is shown while it is typed, above all where it reaches the terminal's width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .hook import Hook

if TYPE_CHECKING:
    from ptyctl.simulator.console import Console


def room(console: Console) -> int | None:
    """The columns behind the prompt that a line may fill; None: there is no edge."""
    return console.width - len(console.prompt_text) - 1 if console.width else None


class EchoWraps(Hook):
    """A command line that grows too wide is shifted by ten columns, with a `$` for what is no longer seen."""

    SHIFT = 10

    def visible(self, console: Console, line: str) -> str:
        columns = room(console)
        if columns is None or len(line) <= columns:
            return line
        shifts = -(-(len(line) - columns) // self.SHIFT)
        return "$" + line[shifts * self.SHIFT + 1 :]


class EchoTruncates(Hook):
    """What is too wide is not shown; a `$` in the last column stands for it."""

    def visible(self, console: Console, line: str) -> str:
        columns = room(console)
        if columns is None or len(line) <= columns:
            return line
        return line[: max(0, columns - 1)] + "$"


class AtTheEdge(Hook):
    """Puts something between two characters of which the second begins a new row."""

    def between(self, following: str) -> str:
        raise NotImplementedError

    def echo(self, console: Console, before: str, after: str, text: str) -> str:
        if not console.width or not after.startswith(before):
            return text
        start = len(console.prompt_text) + len(before)
        typed = after[len(before) :]
        return "".join(
            (self.between(character) if column % console.width == 0 else "") + character
            for column, character in enumerate(typed, start)
        )


class EchoBreaks(AtTheEdge):
    """The device goes to a new row by itself, with CR and LF (`Terminal.write` makes them of a line end)."""

    def between(self, following: str) -> str:
        return "\n"


class EchoDoubles(AtTheEdge):
    """The first character of a new row is sent twice with a CR between, which is what makes a terminal wrap now."""

    def between(self, following: str) -> str:
        return f"{following}\r"


class EchoRepaints(Hook):
    """Each key repaints the whole line: CR, the prompt, what was typed so far, erase to the end (ECMA-48, EL)."""

    def echo(self, console: Console, before: str, after: str, text: str) -> str:
        return f"\r{console.painted_prompt.rpartition(chr(10))[2]}{after}\x1b[K"

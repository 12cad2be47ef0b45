"""Quirks of the echo and of the output of commands.

`Quirks` describes what each of them does. `HOOKS` maps its field names to the classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .console import DeviceConsole, PacedOutput, QuirkHook
from .quirks import QuirkValue
from .terminal import DropConnection

#: Pieces that a slow line sends per second.
PIECES_PER_SECOND = 50


class EveryNthCommand(QuirkHook):
    """Base class of the quirks that act on each Nth command; the value is N."""

    def __init__(self, console: DeviceConsole, value: QuirkValue) -> None:
        super().__init__(console, value)
        self._commands = 0

    def is_due(self) -> bool:
        self._commands += 1
        return self._commands % int(self.value) == 0


def available_columns(console: DeviceConsole) -> int | None:
    """Return the columns after the prompt that a command line may fill; None without a terminal width."""
    return console.width - len(console.prompt_text) - 1 if console.width else None


class EchoWraps(QuirkHook):
    SHIFT = 10

    def visible_line(self, line: str) -> str:
        columns = available_columns(self.console)
        if columns is None or len(line) <= columns:
            return line
        shifts = -(-(len(line) - columns) // self.SHIFT)
        return "$" + line[shifts * self.SHIFT + 1 :]


class EchoTruncates(QuirkHook):
    def visible_line(self, line: str) -> str:
        columns = available_columns(self.console)
        if columns is None or len(line) <= columns:
            return line
        return line[: max(0, columns - 1)] + "$"


class RowBoundaryQuirk(QuirkHook):
    """Base class of the quirks that insert output before the first character of a new row."""

    def insertion(self, following: str) -> str:
        raise NotImplementedError

    def echo(self, before: str, after: str, text: str) -> str:
        width = self.console.width
        if not width or not after.startswith(before):
            return text
        start = len(self.console.prompt_text) + len(before)
        return "".join(
            (self.insertion(character) if column % width == 0 else "") + character
            for column, character in enumerate(after[len(before) :], start)
        )


class EchoBreaks(RowBoundaryQuirk):
    def insertion(self, following: str) -> str:
        return "\n"


class EchoDoubles(RowBoundaryQuirk):
    def insertion(self, following: str) -> str:
        return f"{following}\r"


class EchoRepaints(QuirkHook):
    def echo(self, before: str, after: str, text: str) -> str:
        return f"\r{self.console.rendered_prompt.rpartition(chr(10))[2]}{after}\x1b[K"


def insert_in_middle(text: str, lines: Iterable[str]) -> str:
    own = text.splitlines(keepends=True)
    middle = len(own) // 2
    return "".join([*own[:middle], *(f"{line}\n" for line in lines), *own[middle:]])


class LookAlikes(QuirkHook):
    def command_output(self, text: str) -> str:
        if not text:
            return text
        name = self.console.device.hostname
        foreign = ("<edge-1>", "[V200R019C00SPC500]", "admin@r1> ", "[edit]", "RP/0/RP0/CPU0:r1(config)#", "$ ")
        own = (self.console.prompt_text, f"{name}>", f"{name}#", f"{name}(config)# ", self.console.pager_style.prompt)
        return insert_in_middle(text, (*own, *foreign, "Password: ", "Last login: today", "Overwrite? [y/n]: "))


class TimeBeforeOutput(QuirkHook):
    def command_output(self, text: str) -> str:
        return f"{self.console.device.clock(self.console.now).lstrip('*')}\n{text}"


class SyslogEvery(EveryNthCommand):
    def command_output(self, text: str) -> str:
        if not self.is_due():
            return text
        return insert_in_middle(text, [self.console.record(self.console.device.next_sample_event())])


class DropLineAfter(EveryNthCommand):
    def command_output(self, text: str) -> str:
        if not self.is_due():
            return text
        middle = len(text) // 2
        self.console.write(text[:middle])
        self.console.perform(DropConnection())
        return text[middle:]


class NulPadding(QuirkHook):
    def transform_bytes(self, data: bytes) -> bytes:
        more = self.console.pager_style.prompt.encode()
        return data.replace(b"\r\n", b"\r\n\0\0").replace(more, more + b"\0")


class OutputGaps(QuirkHook):
    #: Shorter outputs are not interrupted.
    MIN_LINES = 4

    def pace(self, pieces: Iterable[PacedOutput]) -> Iterator[PacedOutput]:
        for data, seconds in pieces:
            if data.count(b"\n") < self.MIN_LINES:
                yield data, seconds
                continue
            half = len(data) // 2
            middle = data.find(b"\n", half) + 1 or half
            yield data[:middle], float(self.value)
            yield data[middle:], seconds


class SlowOutput(QuirkHook):
    def pace(self, pieces: Iterable[PacedOutput]) -> Iterator[PacedOutput]:
        rate = float(self.value)
        size = max(1, int(rate / PIECES_PER_SECOND))
        for data, seconds in pieces:
            for start in range(0, len(data), size):
                piece = data[start : start + size]
                pause = seconds if start + size >= len(data) else 0.0
                yield piece, len(piece) / rate + pause


HOOKS: dict[str, type[QuirkHook]] = {
    "echo_wraps": EchoWraps,
    "echo_truncates": EchoTruncates,
    "echo_breaks": EchoBreaks,
    "echo_doubles": EchoDoubles,
    "echo_repaints": EchoRepaints,
    "look_alikes": LookAlikes,
    "time_before_output": TimeBeforeOutput,
    "syslog_every": SyslogEvery,
    "drop_line_after": DropLineAfter,
    "nul_padding": NulPadding,
    "output_gaps": OutputGaps,
    "slow_output": SlowOutput,
}

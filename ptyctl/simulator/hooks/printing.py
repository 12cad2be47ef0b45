"""What happens to output on its way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ptyctl.simulator.actions import Drop

from .hook import EveryNth, Hook, Piece

if TYPE_CHECKING:
    from ptyctl.simulator.console import Console

#: A line looks steady when it moves this often a second.
PIECES_PER_SECOND = 50


def in_the_middle(text: str, lines: Iterable[str]) -> str:
    """`text` with more lines in its middle."""
    own = text.splitlines(keepends=True)
    middle = len(own) // 2
    return "".join([*own[:middle], *(f"{line}\n" for line in lines), *own[middle:]])


class LookAlikes(Hook):
    """Output has lines that look like prompts, pagers, questions and logins; the first is exactly the prompt."""

    def command_output(self, console: Console, text: str) -> str:
        if not text:
            return text
        name = console.device.hostname
        foreign = ("<edge-1>", "[V200R019C00SPC500]", "admin@r1> ", "[edit]", "RP/0/RP0/CPU0:r1(config)#", "$ ")
        own = (console.prompt_text, f"{name}>", f"{name}#", f"{name}(config)# ", console.pager_style.prompt)
        return in_the_middle(text, (*own, *foreign, "Password: ", "Last login: today", "Overwrite? [y/n]: "))


class TimeBeforeOutput(Hook):
    """The time stands before what a command prints."""

    def command_output(self, console: Console, text: str) -> str:
        return f"{console.device.time(console.now).lstrip('*')}\n{text}"


class SyslogEvery(EveryNth):
    """A syslog line in the middle of the output of each Nth command."""

    def command_output(self, console: Console, text: str) -> str:
        if not self.is_due():
            return text
        return in_the_middle(text, [console.record(console.device.chatter())])


class DropLineAfter(EveryNth):
    """The connection ends in the middle of the output of the Nth command."""

    def command_output(self, console: Console, text: str) -> str:
        if not self.is_due():
            return text
        middle = len(text) // 2
        console.write(text[:middle])
        console.do(Drop())
        return text[middle:]


class NulPadding(Hook):
    """NUL as filler, after each line end (once the time that a carriage needs to return) and after the pager's prompt."""

    def outgoing(self, console: Console, data: bytes) -> bytes:
        more = console.pager_style.prompt.encode()
        return data.replace(b"\r\n", b"\r\n\0\0").replace(more, more + b"\0")


class OutputGaps(Hook):
    """So many seconds of silence in the middle of whatever has several lines."""

    LINES = 4

    def pace(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        for data, seconds in pieces:
            if data.count(b"\n") < self.LINES:
                yield data, seconds
                continue
            half = len(data) // 2
            middle = data.find(b"\n", half) + 1 or half
            yield data[:middle], self.number
            yield data[middle:], seconds


class SlowOutput(Hook):
    """So many characters a second, as on a serial line."""

    def pace(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        size = max(1, int(self.number / PIECES_PER_SECOND))
        for data, seconds in pieces:
            for start in range(0, len(data), size):
                piece = data[start : start + size]
                rest = seconds if start + size >= len(data) else 0.0
                yield piece, len(piece) / self.number + rest

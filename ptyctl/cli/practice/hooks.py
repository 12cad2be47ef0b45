"""What the quirks do. A `Hook` has a method for every point at which one may step in; each quirk overrides what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .actions import Drop
from .pager import MORE, Pager
from .shows import running_config

if TYPE_CHECKING:
    from .console import Console

#: A line looks steady when it moves this often a second.
PIECES_PER_SECOND = 50


class Hook:
    """The base: changes nothing. One is made for each console and each quirk that is on, with the value of its field."""

    def __init__(self, value: float) -> None:
        self.value = value

    def start(self, console: Console) -> bool:
        """Somebody has connected. True: this quirk has said all there is to say."""
        return False

    def banner(self, console: Console, text: str) -> str:
        """What is shown before the login."""
        return text

    def visible(self, console: Console, line: str) -> str:
        """What is on the screen of the command line that is being typed."""
        return line

    def command_output(self, console: Console, text: str) -> str:
        """A command is over: what is shown of its output."""
        return text

    def prompted(self, console: Console) -> None:
        """The prompt has just been shown."""

    def outgoing(self, data: bytes) -> bytes:
        """What is sent."""
        return data

    def pace(self, data: bytes) -> Iterator[tuple[bytes, float]] | None:
        """The pieces in which it is sent, each with the seconds to wait after it; None: at once."""
        return None


class LeftOverMore(Hook):
    """The previous user has left in the middle of `show running-config`."""

    def start(self, console: Console) -> bool:
        console.take_over("operator")
        pager = Pager(running_config(console.device, console.now))
        pager.page(console.length, console.width)
        console.more(pager, console.prompt, visible=not console.quirks.silent)
        return True


class Silent(Hook):
    """The console sleeps."""

    def start(self, console: Console) -> bool:
        console.sleep()
        return True


class PromptInBanner(Hook):
    """The banner has lines that end like prompts, one of them exactly like the real one."""

    def banner(self, console: Console, text: str) -> str:
        name = console.device.hostname
        rule = "#" * 60
        lines = (rule, f"# {name}> authorised users only #", f"{name}#", f"{name}>", "Password: never shown here", rule)
        return text + "\n".join(lines) + "\n"


class EveryNth(Hook):
    """Does something at each Nth command."""

    def __init__(self, value: float) -> None:
        super().__init__(value)
        self._commands = 0

    def is_due(self) -> bool:
        self._commands += 1
        return self._commands % int(self.value) == 0


class SyslogEvery(EveryNth):
    """A syslog line in the middle of the output of each Nth command."""

    def command_output(self, console: Console, text: str) -> str:
        if not self.is_due():
            return text
        lines = text.splitlines(keepends=True)
        lines.insert(len(lines) // 2, console.record(console.device.chatter()) + "\n")
        return "".join(lines)


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


class EchoWraps(Hook):
    """A command line that grows too wide is shifted by ten columns, with a `$` for what is no longer seen."""

    SHIFT = 10

    def visible(self, console: Console, line: str) -> str:
        room = console.width - len(console.prompt_text) - 1
        if console.width == 0 or len(line) <= room:
            return line
        shifts = -(-(len(line) - room) // self.SHIFT)
        return "$" + line[shifts * self.SHIFT + 1 :]


class NulPadding(Hook):
    """NUL as filler, after each line end (once the time that a carriage needs to return) and after the pager's prompt."""

    def outgoing(self, data: bytes) -> bytes:
        more = MORE.encode()
        return data.replace(b"\r\n", b"\r\n\0\0").replace(more, more + b"\0")


class DropLineAfter(EveryNth):
    """The connection ends in the middle of the output of the Nth command."""

    def command_output(self, console: Console, text: str) -> str:
        if not self.is_due():
            return text
        middle = len(text) // 2
        console.write(text[:middle])
        console.do(Drop())
        return text[middle:]


class SlowOutput(Hook):
    """So many characters a second, as on a serial line."""

    def pace(self, data: bytes) -> Iterator[tuple[bytes, float]]:
        size = max(1, int(self.value / PIECES_PER_SECOND))
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            yield piece, len(piece) / self.value

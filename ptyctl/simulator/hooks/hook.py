"""The points at which a quirk may step in. Each quirk overrides what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptyctl.simulator.console import Console
    from ptyctl.simulator.login import LoginStyle

#: Goes on with what the quirk stepped in before.
Then = Callable[[], None]

#: Bytes to send, and the seconds to wait after them.
Piece = tuple[bytes, float]


class Hook:
    """The base: changes nothing. One is made for each console and each quirk that is on, with the value of its field.

    A method that gets `then` says True when it has taken over; it calls `then` once it is through.
    """

    def __init__(self, value: float | str) -> None:
        self.value = value

    @property
    def number(self) -> float:
        """The value of a quirk that is a number."""
        return float(self.value)

    def install(self, console: Console) -> None:
        """The console is being made; the hooks before this one are in place."""

    # Before and while somebody logs in

    def start(self, console: Console, then: Then) -> bool:
        """Somebody has connected for the first time."""
        return False

    def banner(self, console: Console, text: str) -> str:
        """What is shown before the login."""
        return text

    def login(self, console: Console, style: LoginStyle) -> LoginStyle:
        """How the login asks."""
        return style

    def logged_in(self, console: Console, then: Then) -> bool:
        """Somebody has given the right password."""
        return False

    # At the prompt

    def prompt_text(self, console: Console, text: str) -> str:
        """The prompt as a person reads it, on one line."""
        return text

    def painted(self, console: Console, prompt: str) -> str:
        """The prompt as it is sent: with lines above it, colours and the like."""
        return prompt

    def prompted(self, console: Console) -> None:
        """The prompt has just been shown."""

    def visible(self, console: Console, line: str) -> str:
        """What is on the screen of the command line that is being typed."""
        return line

    def echo(self, console: Console, before: str, after: str, text: str) -> str:
        """What is sent when `after` takes the place of `before` on the screen: normally `text`."""
        return text

    def entered(self, console: Console) -> None:
        """Enter was pressed behind a command."""

    # While commands run

    def command_output(self, console: Console, text: str) -> str:
        """A command is over: what is shown of its output."""
        return text

    def paging_set(self, console: Console, length: int) -> str:
        """What is said to `terminal length`."""
        return ""

    def saving(self, console: Console, then: Then) -> bool:
        """The configuration is about to be saved."""
        return False

    def leaving(self, console: Console, then: Then) -> bool:
        """The configuration mode is about to be left."""
        return False

    # On the way out

    def outgoing(self, console: Console, data: bytes) -> bytes:
        """What is sent."""
        return data

    def pace(self, pieces: Iterable[Piece]) -> Iterable[Piece]:
        """How it is sent."""
        return pieces


class EveryNth(Hook):
    """Does something at each Nth command."""

    def __init__(self, value: float | str) -> None:
        super().__init__(value)
        self._commands = 0

    def is_due(self) -> bool:
        self._commands += 1
        return self._commands % int(self.number) == 0

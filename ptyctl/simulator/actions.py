"""What a console wants done. The console only says so; whoever drives it has the sockets and the clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Output:
    """These bytes go to whoever is connected."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Flush:
    """Output that was not sent yet is thrown away, as a tty does at an interrupt."""


@dataclass(frozen=True, slots=True)
class Wake:
    """`wake` is to be called in so many seconds. A later one replaces an earlier one."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Log:
    """A syslog line that the other consoles should see too, without a line end."""

    line: str


@dataclass(frozen=True, slots=True)
class Close:
    """The session ended in order: the connection ends after the output."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection breaks off here. What the console says later reaches nobody."""


@dataclass(frozen=True, slots=True)
class Reload:
    """The device starts anew; all sessions end."""


Action = Output | Flush | Wake | Log | Close | Drop | Reload

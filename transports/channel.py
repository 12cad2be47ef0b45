"""The abstract byte channel: what a local PTY, an SSH session and a Telnet connection have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from .receiver import Receiver


@dataclass(frozen=True, slots=True)
class Pty:
    """The terminal that is asked for. `cols` and `rows` are characters, 1 to 65535 each (RFC 1073, RFC 4254 6.2)."""

    cols: int = 120
    rows: int = 40
    term: str = "xterm-256color"


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How the process ended: an exit `code` (0 to 255), or the `signal` that killed it, without SIG (RFC 4254 6.10)."""

    code: int | None = None
    signal: str | None = None

    @property
    def shell_code(self) -> int | None:
        """The code a shell would report: 128 + n for a death by signal n."""
        if self.signal is None:
            return self.code
        import signal

        number = getattr(signal, f"SIG{self.signal}", None)
        return None if number is None else 128 + int(number)


class Channel(ABC):
    """One duplex stream of bytes to a terminal.

    Life: `open` once, then `write`/`drain`, then `close`. The receiver is fed from `open` on until `channel_ended`, whoever
    reads or does not: the far end is never blocked by a slow reader. All methods belong to one event loop.
    """

    protocol: str = "memory"

    #: Whether the far end has a terminal of ours (a PTY, or a Telnet peer that may be told the window's size).
    pty_enabled: bool = True
    #: What the far end said of itself before the terminal began (SSH: version and banner).
    server_banner: str | None = None
    #: A risk that the user should know of (Telnet: cleartext).
    security_warning: str | None = None
    #: How the far end's process ended, once it has, where the protocol tells.
    exit_status: ExitStatus | None = None

    @abstractmethod
    async def open(self, receiver: Receiver) -> None:
        """Connects or starts, and from then on feeds `receiver`.

        Raises:
            InvalidOption, Unsupported, ConnectTimeout, ConnectFailed, AuthFailed, HostKeyMismatch.
        A failed or cancelled open leaves nothing behind: no process, no socket.
        """

    @abstractmethod
    def write(self, data: bytes) -> int:
        """Hands over as much of `data` as can go now without waiting (0 if none), as write(2) does on a non-blocking file.

        Raises:
            ChannelClosed, ChannelEnded, ChannelBroken.
        """

    @abstractmethod
    async def drain(self) -> None:
        """Waits until `write` may take something again. Many may wait at once.

        Raises:
            ChannelClosed, ChannelEnded, ChannelBroken: also when that happens during the wait.
        """

    async def send(self, data: bytes) -> None:
        """Writes all of `data`, waiting where the far end is slow."""
        rest = data
        while rest:
            taken = self.write(rest)
            rest = rest[taken:]
            if rest:
                await self.drain()

    @property
    def enter(self) -> bytes:
        """The bytes that one press of Enter sends, as things stand now."""
        return b"\r"

    @property
    def echo_off(self) -> bool:
        """Whether the far end is known to take a secret now (a local PTY with ICANON on and ECHO off)."""
        return False

    @property
    def takes_lines(self) -> bool | None:
        """Whether the far end's terminal gathers lines now (ICANON): no program reads single keys then. None where unknown."""
        return None

    def leads_foreground(self) -> bool | None:
        """Whether the program that was started is itself in front (tcgetpgrp(3)), and none that it runs; None where unknown."""
        return None

    def kill_foreground(self) -> bool:
        """Kills the program in front of the shell (SIGKILL to the terminal's foreground group); False where that cannot be."""
        return False

    @abstractmethod
    def resize(self, cols: int, rows: int) -> None:
        """Tells the far end the new window size. On a channel that has ended it does nothing.

        Raises:
            Unsupported: the channel has no terminal.
        """

    async def send_break(self, duration_ms: int = 250) -> None:
        """Sends BREAK: RFC 4335 on SSH, IAC BRK (RFC 854) on Telnet, tcsendbreak on a tty.

        Raises:
            Unsupported: this channel knows no BREAK, or the far end refused it.
        """
        from .errors import Unsupported

        raise Unsupported(f"a {self.protocol} channel has no BREAK; send ctrl_c or ctrl_backslash instead")

    @abstractmethod
    async def close(self, *, force: bool = False) -> None:
        """Ends the channel and frees everything. `force` skips all grace. A second close does nothing; none raises or hangs."""

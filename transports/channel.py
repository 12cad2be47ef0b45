"""The channel interface that the local PTY, the SSH and the Telnet channel implement."""

from __future__ import annotations

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from .errors import InvalidOption, Unsupported
from .process import RunningProcess, WaitPoint
from .receiver import Receiver

#: Maximum number of columns and of rows: struct winsize and NAWS (RFC 1073) have 16 bits for each.
MAX_DIMENSION = 65535
#: Maximum TCP port.
MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Pty:
    """The requested terminal. `cols` and `rows` are in characters, 1 to 65535 each (RFC 1073, RFC 4254 6.2)."""

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
        """The exit code that a shell reports: 128 + n after death by signal n; None if this host lacks the signal."""
        if self.signal is None:
            return self.code
        number = getattr(signal, f"SIG{self.signal}", None)
        return None if number is None else 128 + int(number)


def check_window_size(cols: int, rows: int) -> None:
    """Validate a window size.

    Raises:
        InvalidOption: a dimension is not within 1 to `MAX_DIMENSION` characters.
    """
    if not (1 <= cols <= MAX_DIMENSION and 1 <= rows <= MAX_DIMENSION):
        raise InvalidOption(
            f"a window of {cols} x {rows} is not within 1 x 1 to {MAX_DIMENSION} x {MAX_DIMENSION}", option="pty"
        )


class TerminalStatus:
    """What the system reports about a terminal and the programs in it. This base class knows nothing of them.

    Local channels know most; of a far end on another machine only the exit status is known.
    """

    #: The exit status of the process after its end, if the protocol transfers it.
    exit_status: ExitStatus | None = None

    @property
    def echo_off(self) -> bool:
        """Whether the terminal reads a line without echo, as for a password. Only a local PTY can report it (termios)."""
        return False

    @property
    def canonical(self) -> bool | None:
        """Whether the terminal is in canonical mode (termios ICANON), None if unknown."""
        return None

    @property
    def rewrites_input(self) -> bool:
        """Whether the terminal driver changes input characters, or interprets printable ones (termios).

        False where that is never known; True for a terminal that is closed.
        """
        return False

    def leads_foreground(self) -> bool | None:
        """Return whether the started program itself is in the foreground (tcgetpgrp(3)), None if unknown."""
        return None

    def foreground_program(self) -> tuple[int, str] | None:
        """Return pid and name of the program that leads the foreground process group, None if unknown."""
        return None

    def foreground_directory(self) -> str | None:
        """Return the working directory of that program, None if unknown."""
        return None

    def foreground_names(self) -> frozenset[str]:
        """Return the names of all programs of the foreground process group; none if unknown."""
        return frozenset()

    def foreground_has_executed(self) -> bool:
        """Return whether the foreground program was started; False for the fork of a shell, which has the shell's name."""
        return True

    @property
    def kill_key(self) -> bytes:
        """The key that deletes the unsubmitted line of a terminal in canonical mode; empty in another mode, or if unknown."""
        return b""

    def reads_password(self) -> bool:
        """Return whether sudo or a similar program in the foreground reads a line without echo; False if unknown."""
        return False

    def wakeups(self) -> int | None:
        """Return how many times the foreground program has resumed after a wait, for example a read; None if unknown."""
        return None

    def wait_point(self) -> WaitPoint | None:
        """Return where the foreground program waits for input; None if it does not, or if that is unknown."""
        return None

    def reads_key(self) -> bool:
        """Return whether the terminal is not in canonical mode, and a foreground program waits for input; False if unknown."""
        return False

    def reads_line(self) -> bool:
        """Return whether the foreground program is in a read of the terminal in canonical mode; False if unknown."""
        return False

    def input_is_read(self) -> bool | None:
        """Return whether the program in the foreground has read all input and waits; None if unknown."""
        return None

    def has_unread_output(self) -> bool:
        """Return whether output of the program waits to be read, also if the system has yet to pass it on; False if unknown."""
        return False

    async def read_pending(self) -> None:
        """Yield to the event loop so that it reads all output that is readable now.

        Waits two loop iterations: one iteration runs its ready callbacks before it polls for input.
        """
        await asyncio.sleep(0)
        await asyncio.sleep(0)


#: The status of a terminal without a channel.
UNKNOWN_TERMINAL = TerminalStatus()


class Channel(TerminalStatus, ABC):
    """A duplex byte stream to a terminal.

    Lifecycle: `open` once, then `write` and `drain`, then `close`. From `open` until `channel_ended` the channel passes all
    received bytes to its receiver without back-pressure, so a slow consumer never blocks the remote end. All methods must be
    called from one event loop.
    """

    protocol: str = "memory"

    #: Whether the remote end has a terminal: a PTY, or a Telnet peer that accepts the window size.
    pty_enabled: bool = True
    #: Text that the server sent before the terminal started (SSH: version and banner).
    server_banner: str | None = None
    #: A risk to show to the user (Telnet: cleartext).
    security_warning: str | None = None
    #: Local processes of the terminal that continue after the end of its program, and after `close`.
    left_running: tuple[RunningProcess, ...] = ()

    @abstractmethod
    async def open(self, receiver: Receiver) -> None:
        """Connect or start the program, and pass received bytes to `receiver` from now on.

        A failed or cancelled open leaves no process and no socket.

        Raises:
            InvalidOption, Unsupported, ConnectTimeout, ConnectFailed, AuthFailed, HostKeyMismatch.
        """

    def receive_stderr(self, receiver: Receiver | None) -> None:
        """Pass stderr to `receiver` if the channel has it as a separate stream. Call before `open`.

        `read_stderr`, called after some stdout was received, delivers all stderr output that the program wrote before it.
        """

    def guard_output(self, may_send: Callable[[], bool], delivery_s: float) -> None:
        """Bound the right to write: no byte is sent or delivered after `may_send` returns False. Call before `open`.

        Args:
            may_send: returns whether a byte may be sent now; also checked before protocol responses of the channel.
            delivery_s: how long the kernel may try to deliver a byte (seconds).

        Supported by Telnet channels and directly connected SSH channels. SSH through a jump host or a ProxyCommand checks
        `may_send` but does not bound the delivery, because another host has the last connection. Local programs ignore it.
        """

    @property
    def terminal_fd(self) -> int | None:
        """The PTY master of a local program, None otherwise. A duplicate of it keeps the terminal open."""
        return None

    @abstractmethod
    def write(self, data: bytes) -> int:
        """Accept as much of `data` as possible without blocking; return the number of bytes accepted, possibly 0.

        Raises:
            ChannelClosed, ChannelEnded, ChannelBroken.
        """

    @abstractmethod
    async def drain(self) -> None:
        """Wait until `write` may accept bytes again. Several tasks may wait at the same time.

        Raises:
            ChannelClosed, ChannelEnded, ChannelBroken: also if the channel ends during the wait.
        """

    async def send(self, data: bytes) -> None:
        """Write all of `data`, waiting whenever the channel accepts no more."""
        rest = data
        while rest:
            accepted = self.write(rest)
            rest = rest[accepted:]
            if rest:
                await self.drain()

    @property
    def enter(self) -> bytes:
        """The bytes that the Enter key sends in the current mode."""
        return b"\r"

    def signal_foreground(self, number: signal.Signals) -> bool:
        """Send a signal to the foreground process group unless it is the shell; return whether it was sent."""
        return False

    def read_stderr(self) -> None:
        """Pass pending stderr data to its receiver now. No effect if stderr is not a separate stream."""
        return

    @abstractmethod
    def resize(self, cols: int, rows: int) -> None:
        """Set the window size. Has no effect on a channel that has ended.

        Raises:
            Unsupported: the channel has no terminal.
        """

    async def send_break(self, duration_ms: int = 250) -> None:
        """Send BREAK: RFC 4335 on SSH, IAC BRK (RFC 854) on Telnet.

        Raises:
            Unsupported: the channel cannot send BREAK.
        """
        raise Unsupported(f"a {self.protocol} channel cannot send BREAK", hint="send ctrl_c or ctrl_backslash instead")

    @abstractmethod
    async def close(self, *, force: bool = False) -> None:
        """End the channel and release its resources; `force` skips all grace periods.

        May be called repeatedly. Never raises and never hangs.
        """

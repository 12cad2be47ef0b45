"""Lines of the switch: `LineDriver` connects one console to its connections, `LineTable` holds the lines of a switch."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Protocol

from .device import SimulatedDevice
from .quirks import Quirks
from .quirky_console import QuirkyConsole
from .terminal import (
    BroadcastLog,
    CloseConnection,
    DiscardOutput,
    DropConnection,
    ReloadDevice,
    SendOutput,
    TerminalAction,
    WakeAfter,
)

#: Queued output in bytes above which no further command runs: a short line can request a lot of output.
MAX_BACKLOG = 64 * 1024

#: Queued input in bytes above which connections are not read. Below it they are, to detect interrupt keys.
MAX_INPUT = 64 * 1024

#: Maximum bytes of input processed at once: congestion is checked after each piece.
MAX_PIECE = 256

#: Maximum pieces per iteration of the event loop: a long paste on one line must not block the others.
MAX_PIECES = 64

#: A piece ends after an Enter, as that runs a command.
_ENTERS = re.compile(rb"[\r\n]")

#: Actions that concern the connections, in order.
ConnectionAction = SendOutput | CloseConnection | DropConnection


class LineConnection(Protocol):
    """Connection of a client."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """Close the connection after the written data was sent."""

    def drop(self) -> None:
        """Break the connection."""

    def pause(self) -> None:
        """Stop reading."""

    def resume(self) -> None:
        """Resume reading."""


class LineDriver:
    """Feeds a console with the input of its connections and performs its actions.

    All connections see the same output and share the input. While a connection is congested, input is queued, as with
    flow control on a serial line; only an interrupt key is processed, and discards the input queued before it.

    Args:
        clock: Returns the seconds since the simulator started.
        on_device_action: Called for actions that concern other lines: `BroadcastLog` and `ReloadDevice`.
    """

    def __init__(
        self,
        console: QuirkyConsole,
        clock: Callable[[], float],
        on_device_action: Callable[[LineDriver, BroadcastLog | ReloadDevice], None],
    ) -> None:
        self.console = console
        self._clock, self._on_device_action = clock, on_device_action
        self._connections: set[LineConnection] = set()
        self._congested: set[LineConnection] = set()
        self._reading_paused = False
        self._started = False
        self._wake_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._input_handle: asyncio.Handle | None = None
        self._input = bytearray()
        #: Actions with the seconds to wait after each, and the total size of their output.
        self._backlog: deque[tuple[ConnectionAction, float]] = deque()
        self._backlog_bytes = 0

    def attach(self, connection: LineConnection) -> None:
        self._connections.add(connection)
        if not self._started:
            self._started = True
            self._perform(self.console.start(self._clock()))

    def detach(self, connection: LineConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._input.clear()
        self.resume_output(connection)

    def pause_output(self, connection: LineConnection) -> None:
        """Mark a connection as congested."""
        self._congested.add(connection)

    def resume_output(self, connection: LineConnection) -> None:
        """Mark a connection as no longer congested."""
        self._congested.discard(connection)
        self._process_input()

    def receive(self, data: bytes) -> None:
        """Process input, now or when the output is no longer congested."""
        self._input += data
        if self._is_congested:
            self._process_interrupt()
        if self._input_handle is None:
            self._process_input()

    def resize(self, cols: int, rows: int) -> None:
        """Set the window size; 0 means unknown (RFC 1073)."""
        self.console.resize(cols, rows)

    def show_syslog(self, line: str) -> None:
        self._perform(self.console.show_syslog(line, self._clock()))

    def reboot(self) -> None:
        """Handle a reload of the device: a console restarts, a vty is closed."""
        if self.console.is_console_line:
            self._perform(self.console.reboot(self._clock()))
        else:
            self.console.close_input()
            self._perform([CloseConnection()])

    def stop(self) -> None:
        """Cancel all timers and discard queued data."""
        for handle in (self._wake_timer, self._send_timer, self._input_handle):
            if handle is not None:
                handle.cancel()
        self._wake_timer = self._send_timer = self._input_handle = None
        self._backlog.clear()
        self._input.clear()

    @property
    def _is_congested(self) -> bool:
        return bool(self._congested) or self._backlog_bytes > MAX_BACKLOG

    def _process_input(self) -> None:
        self._input_handle = None
        for _ in range(MAX_PIECES):
            if not self._input or self._is_congested:
                break
            enter = _ENTERS.search(self._input, 0, MAX_PIECE)
            self._feed(enter.end() if enter else MAX_PIECE)
        else:
            self._input_handle = asyncio.get_running_loop().call_soon(self._process_input)
        self._update_reading()

    def _process_interrupt(self) -> None:
        last = max(self._input.rfind(b"\x03"), self._input.rfind(b"\x1e"))
        if last >= 0:
            del self._input[:last]
            self._feed(1)

    def _feed(self, size: int) -> None:
        piece = bytes(self._input[:size])
        del self._input[:size]
        self._perform(self.console.feed(piece, self._clock()))

    def _update_reading(self) -> None:
        pause = len(self._input) > MAX_INPUT
        if pause != self._reading_paused:
            self._reading_paused = pause
            for connection in self._connections:
                if pause:
                    connection.pause()
                else:
                    connection.resume()

    def _perform(self, actions: list[TerminalAction]) -> None:
        for action in actions:
            match action:
                case SendOutput() | CloseConnection() | DropConnection():
                    self._queue(action)
                case DiscardOutput():
                    self._discard_output()
                case WakeAfter(seconds):
                    self._wake_after(seconds)
                case BroadcastLog() | ReloadDevice():
                    self._on_device_action(self, action)
        if self._send_timer is None:
            self._send_due()

    def _queue(self, action: ConnectionAction) -> None:
        if isinstance(action, SendOutput):
            self._backlog += ((SendOutput(piece), seconds) for piece, seconds in self.console.pace(action.data))
            self._backlog_bytes += len(action.data)
        else:
            self._backlog.append((action, 0.0))

    def _send_due(self) -> None:
        """Perform queued actions until one has to wait."""
        self._send_timer = None
        while self._backlog and self._send_timer is None:
            action, seconds = self._backlog.popleft()
            self._deliver(action)
            if seconds:
                self._send_timer = asyncio.get_running_loop().call_later(seconds, self._on_send_timer)

    def _on_send_timer(self) -> None:
        self._send_due()
        self._process_input()

    def _deliver(self, action: ConnectionAction) -> None:
        if isinstance(action, SendOutput):
            self._backlog_bytes -= len(action.data)
        for connection in tuple(self._connections):
            match action:
                case SendOutput(data):
                    connection.write(data)
                case CloseConnection():
                    connection.close()
                case DropConnection():
                    connection.drop()

    def _discard_output(self) -> None:
        """Discard queued output, and end the row that was interrupted."""
        if not self._backlog_bytes:
            return
        self._backlog = deque(entry for entry in self._backlog if not isinstance(entry[0], SendOutput))
        self._backlog_bytes = 0
        self._queue(SendOutput(b"\r\n"))

    def _wake_after(self, seconds: float) -> None:
        if self._wake_timer is not None:
            self._wake_timer.cancel()
        self._wake_timer = asyncio.get_running_loop().call_later(seconds, self._on_wake_timer)

    def _on_wake_timer(self) -> None:
        self._wake_timer = None
        self._perform(self.console.wake(self._clock()))


class LineTable:
    """The lines of a switch: a vty for each connection, or with `shared_console` one console for all Telnet connections."""

    def __init__(self, device: SimulatedDevice, quirks: Quirks, *, shared_console: bool, ping_interval: float) -> None:
        self.quirks = quirks
        self._device, self._ping_interval = device, ping_interval
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._vtys: dict[str, LineDriver] = {}
        self._console = self._create_line("con0", None) if shared_console else None

    def open(self, ssh_user: str | None = None) -> LineDriver:
        """Return the line for a new connection, which is not attached yet.

        Args:
            ssh_user: The authenticated user of an SSH session; None for Telnet.
        """
        if ssh_user is None and self._console is not None:
            return self._console
        name = next(name for number in count() if (name := f"vty{number}") not in self._vtys)
        line = self._vtys[name] = self._create_line(name, ssh_user)
        return line

    def release(self, line: LineDriver, connection: LineConnection) -> None:
        """Detach a closed connection. Its vty ends; the console remains."""
        if line is self._console:
            line.detach(connection)
        else:
            line.stop()
            del self._vtys[line.console.name]

    def syslog(self, message: str) -> None:
        """Log `message` and show it on all lines that show syslog."""
        self._broadcast(self._device.record(message, self._now()), None)

    def stop(self) -> None:
        for line in self._lines():
            line.stop()

    def _now(self) -> float:
        return self._loop.time() - self._started

    def _lines(self) -> list[LineDriver]:
        return [*self._vtys.values(), *([self._console] if self._console else [])]

    def _create_line(self, name: str, user: str | None) -> LineDriver:
        console = QuirkyConsole(self._device, name, self.quirks, user=user, ping_interval=self._ping_interval)
        return LineDriver(console, self._now, self._on_device_action)

    def _on_device_action(self, origin: LineDriver, action: BroadcastLog | ReloadDevice) -> None:
        match action:
            case BroadcastLog(line):
                self._broadcast(line, origin)
            case ReloadDevice():
                self._device.reload(self._now())
                for each in self._lines():
                    each.reboot()

    def _broadcast(self, text: str, origin: LineDriver | None) -> None:
        for line in self._lines():
            if line is not origin:
                line.show_syslog(text)

"""Drives one console: gives it what its connections send, and does what it wants done."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from .actions import Action, Close, Drop, Flush, Log, Output, Reload, Wake
from .console import Console
from .hooks.hook import Piece

#: Output that waits for its pace, in bytes. Above it no further command runs: one short line can ask for a lot of output.
MAX_BACKLOG = 64 * 1024

#: What was typed and waits, in bytes. Above it the wires are not read; below it they are, or no interrupt would be seen.
MAX_TYPED = 64 * 1024

#: The most that is typed in one go: after each piece it is looked whether the output still flows.
MAX_PIECE = 256

#: The pieces of one turn of the event loop: a long paste on one line does not hold up the others.
MAX_PIECES = 64

#: What ends a piece: a command runs.
_ENTERS = re.compile(rb"[\r\n]")


#: What goes to the wires, in order.
Sent = Output | Close | Drop


class Wire(Protocol):
    """One connection of a client."""

    def write(self, data: bytes) -> None:
        """Sends bytes of the terminal."""

    def close(self) -> None:
        """Ends the connection in order, after what was written."""

    def drop(self) -> None:
        """Ends it as if the line was cut."""

    def pause(self) -> None:
        """Reads no further."""

    def resume(self) -> None:
        """Reads on."""


class Line:
    """One line with any number of wires: all see the same, and whatever any of them sends is typed.

    While a wire takes no more output, the line stands still, as with the flow control of a serial line. Only an interrupt
    gets through; as on a tty, it throws away what was typed before it.

    Args:
        now: the seconds since the simulated switch started.
        others: what happens here that concerns other lines: `Log` and `Reload`.
    """

    def __init__(self, console: Console, now: Callable[[], float], others: Callable[[Line, Action], None]) -> None:
        self.console = console
        self.wires: set[Wire] = set()
        self._now, self._others = now, others
        self._wake: asyncio.TimerHandle | None = None
        self._pump: asyncio.TimerHandle | None = None
        self._turn: asyncio.Handle | None = None
        #: What waits for its pace, each with the seconds to wait after it, and how many bytes of output that is.
        self._backlog: deque[tuple[Sent, float]] = deque()
        self._backlog_bytes = 0
        self._typed = bytearray()
        self._paused = False
        self._stalled: set[Wire] = set()
        self._started = False

    def attach(self, wire: Wire) -> None:
        self.wires.add(wire)
        if not self._started:
            self._started = True
            self._apply(self.console.start(self._now()))

    def detach(self, wire: Wire) -> None:
        self.wires.discard(wire)
        if not self.wires:
            # Nobody is there any more to whom it could matter.
            self._typed.clear()
        self.flows(wire)

    def stalls(self, wire: Wire) -> None:
        """The wire takes no more output for now."""
        self._stalled.add(wire)

    def flows(self, wire: Wire) -> None:
        """The wire takes output again."""
        self._stalled.discard(wire)
        self._work()

    def receive(self, data: bytes) -> None:
        """Types `data`, now or once the output flows."""
        self._typed += data
        if self._congested:
            self._let_interrupt_through()
        if self._turn is None:
            self._work()

    def syslog(self, line: str) -> None:
        self._apply(self.console.syslog(line, self._now()))

    def reboot(self) -> None:
        """The device reloads: a console boots, a vty is hung up."""
        if self.console.is_console_line:
            self._apply(self.console.reboot(self._now()))
        else:
            self.console.hang_up()
            self._apply([Close()])

    def stop(self) -> None:
        """Cancels the timers; nothing more is said."""
        for handle in (self._wake, self._pump, self._turn):
            if handle is not None:
                handle.cancel()
        self._wake = self._pump = self._turn = None
        self._backlog.clear()
        self._typed.clear()

    @property
    def _congested(self) -> bool:
        return bool(self._stalled) or self._backlog_bytes > MAX_BACKLOG

    def _work(self) -> None:
        self._turn = None
        for _ in range(MAX_PIECES):
            if not self._typed or self._congested:
                break
            enter = _ENTERS.search(self._typed, 0, MAX_PIECE)
            self._feed(enter.end() if enter else MAX_PIECE)
        else:
            self._turn = asyncio.get_running_loop().call_soon(self._work)
        self._control_wires()

    def _feed(self, size: int) -> None:
        piece = bytes(self._typed[:size])
        del self._typed[:size]
        self._apply(self.console.feed(piece, self._now()))

    def _let_interrupt_through(self) -> None:
        last = max(self._typed.rfind(b"\x03"), self._typed.rfind(b"\x1e"))
        if last >= 0:
            del self._typed[:last]
            self._feed(1)

    def _control_wires(self) -> None:
        too_much = len(self._typed) > MAX_TYPED
        if too_much != self._paused:
            self._paused = too_much
            for wire in self.wires:
                if too_much:
                    wire.pause()
                else:
                    wire.resume()

    def _apply(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Output() | Close() | Drop():
                    self._queue(action)
                case Flush():
                    self._flush()
                case Wake(seconds):
                    self._wake_in(seconds)
                case Log() | Reload():
                    self._others(self, action)
        if self._pump is None:
            self._send_next()

    def _queue(self, action: Sent) -> None:
        for entry in self._paced(action):
            self._backlog.append(entry)
            self._backlog_bytes += _size(entry[0])

    def _paced(self, action: Sent) -> list[tuple[Sent, float]]:
        if not isinstance(action, Output):
            return [(action, 0.0)]
        pieces: Iterable[Piece] = [(action.data, 0.0)]
        for hook in self.console.hooks:
            pieces = hook.pace(pieces)
        return [(Output(piece), seconds) for piece, seconds in pieces]

    def _send_next(self) -> None:
        """Does what is due; where something has to wait, comes back later."""
        self._pump = None
        while self._backlog:
            action, seconds = self._backlog.popleft()
            self._backlog_bytes -= _size(action)
            self._deliver(action)
            if seconds:
                self._pump = asyncio.get_running_loop().call_later(seconds, self._on_pump)
                break

    def _on_pump(self) -> None:
        self._send_next()
        self._work()

    def _deliver(self, action: Sent) -> None:
        for wire in tuple(self.wires):
            match action:
                case Output(data):
                    wire.write(data)
                case Close():
                    wire.close()
                case Drop():
                    wire.drop()

    def _flush(self) -> None:
        """Forgets the output that still waits. A row that was cut off ends here, or the next one would begin behind it."""
        waiting = [entry for entry in self._backlog if isinstance(entry[0], Output)]
        if not waiting:
            return
        self._backlog = deque(entry for entry in self._backlog if not isinstance(entry[0], Output))
        self._backlog_bytes = 0
        self._queue(Output(b"\r\n"))

    def _wake_in(self, seconds: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = asyncio.get_running_loop().call_later(seconds, self._on_wake)

    def _on_wake(self) -> None:
        self._wake = None
        self._apply(self.console.wake(self._now()))


def _size(action: Sent) -> int:
    return len(action.data) if isinstance(action, Output) else 0

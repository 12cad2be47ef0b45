"""The terminal of the user who attaches: raw mode while attached, restored afterwards; the status row."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from ptyctl.core.screen import ScreenFrame, ScreenView

#: Saves the title on the title stack and switches to the alternate screen; and the reverse (xterm).
_ENTER = b"\x1b[22;2t\x1b[?1049h\x1b[H\x1b[2J"
_LEAVE = b"\x1b[?1049l\x1b[23;2t"
_READ_BYTES = 65536


class LocalTerminal:
    """Standard input and output of this process. A context manager: raw mode and the alternate screen while it is entered."""

    def __init__(self) -> None:
        self._view = ScreenView()
        self._input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self._original: list[Any] = []
        self._size = 80, 24

    def __enter__(self) -> Self:
        self._original = termios.tcgetattr(self._input)
        self.enter_raw_mode()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.write(self._view.leave() + _LEAVE)
        finally:
            # TCSAFLUSH discards unread input: mostly mouse reports, which the shell would show.
            with suppress(termios.error):
                termios.tcsetattr(self._input, termios.TCSAFLUSH, self._original)

    def enter_raw_mode(self) -> None:
        """Set raw mode and the alternate screen; needed again after the shell has used the terminal (`fg`)."""
        tty.setraw(self._input, termios.TCSANOW)
        self._view = ScreenView()
        self.write(_ENTER)

    def size(self) -> tuple[int, int]:
        """Return columns and rows, or the last known ones if the terminal has closed."""
        with suppress(OSError):
            size = os.get_terminal_size(self._output)
            self._size = max(size.columns, 1), max(size.lines, 1)
        return self._size

    def redraw(self) -> None:
        """Draw the next frame completely."""
        self._view.forget()

    def render(self, frame: ScreenFrame, status_row: str | None, *, takes_input: bool) -> bytes:
        """Return the bytes that change the screen from the previous frame to this one."""
        return self._view.draw(frame, status_row, takes_input=takes_input)

    def write(self, data: bytes) -> None:
        """Write all of `data`. Blocks while the terminal is stopped (XOFF). A closed terminal is reported by SIGHUP instead."""
        with suppress(OSError):
            while data:
                data = data[os.write(self._output, data) :]

    def start_reading(self, on_input: Callable[[bytes], None]) -> None:
        """Call `on_input` with typed bytes from the event loop, and with no bytes at the end of input."""
        asyncio.get_running_loop().add_reader(self._input, self._read, on_input)

    def stop_reading(self) -> None:
        """Stop the calls that `start_reading` started."""
        asyncio.get_running_loop().remove_reader(self._input)

    def _read(self, on_input: Callable[[bytes], None]) -> None:
        try:
            data = os.read(self._input, _READ_BYTES)
        except OSError:  # the terminal has closed
            data = b""
        on_input(data)


@contextmanager
def terminal_signals(
    *, on_end: Callable[[], None], on_resize: Callable[[], None], on_continue: Callable[[], None]
) -> Iterator[None]:
    """Handle signals of the terminal in the event loop.

    Args:
        on_end: called on SIGINT, SIGTERM, and SIGHUP, which reports a closed terminal.
        on_resize: called on SIGWINCH.
        on_continue: called on SIGCONT, after the shell may have changed the terminal (`fg`).
    """
    loop = asyncio.get_running_loop()
    handlers = {
        **dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGINT), on_end),
        signal.SIGWINCH: on_resize,
        signal.SIGCONT: on_continue,
    }
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


HELP = "at the beginning of a line: ~. detach  ~w take or release the lock  ~B BREAK  ~~ types ~"


@dataclass(frozen=True, slots=True)
class AttachStatus:
    """Content of the status row. Sizes are (columns, rows). A message replaces the rest."""

    name: str
    lock_holder: str
    has_lock: bool
    waiting: bool
    session_size: tuple[int, int]
    visible_size: tuple[int, int]
    message: str = ""


def format_status(status: AttachStatus) -> str:
    """Return the text of the row, without control characters that names may contain."""
    return "".join(filter(str.isprintable, status.message or _format_state(status)))


def render_row(text: str, cols: int) -> str:
    """Return the row in reverse video, `cols` wide."""
    return f"\x1b[7m{f' {text}'[:cols].ljust(cols)}\x1b[m"


def _format_state(status: AttachStatus) -> str:
    parts = [status.name, _format_lock(status)]
    if status.session_size[0] > status.visible_size[0] or status.session_size[1] > status.visible_size[1]:
        parts.append("part of {}x{}".format(*status.session_size))
    return " | ".join([*parts, "~? help"])


def _format_lock(status: AttachStatus) -> str:
    if status.has_lock:
        return "you have the lock"
    if status.waiting:
        return f"waiting for the lock of {status.lock_holder}" if status.lock_holder else "waiting for the lock"
    return f"locked by {status.lock_holder}" if status.lock_holder else "not locked; ~w takes the lock"

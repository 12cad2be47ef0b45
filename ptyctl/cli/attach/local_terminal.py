"""The terminal of the user who attaches: raw mode while attached, restored afterwards."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
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

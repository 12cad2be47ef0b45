"""The terminal of whoever attaches: raw while it lasts, and afterwards as it was, whatever happened."""

from __future__ import annotations

import os
import sys
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from ptyctl.core.screen import ScreenView

#: The title is put on the terminal's stack and taken back; the alternate screen keeps what the terminal showed (xterm).
_ENTER = b"\x1b[22;2t\x1b[?1049h\x1b[H\x1b[2J"
_LEAVE = b"\x1b[?1049l\x1b[23;2t"


class Terminal:
    """Standard input and output; `view` is what is drawn there."""

    def __init__(self) -> None:
        self.view = ScreenView()
        self._input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self._before: list[Any] = []
        self._size = 80, 24

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._input)
        self.take()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.write(self.view.leave() + _LEAVE)
        finally:
            with suppress(termios.error):  # what was typed and not read is not for the shell: most of it is the mouse's
                termios.tcsetattr(self._input, termios.TCSAFLUSH, self._before)

    def take(self) -> None:
        """It is ours, also again after the shell has had it."""
        tty.setraw(self._input, termios.TCSANOW)
        self.view = ScreenView()
        self.write(_ENTER)

    def size(self) -> tuple[int, int]:
        """Columns and rows; of a terminal that is gone the last."""
        with suppress(OSError):
            size = os.get_terminal_size(self._output)
            self._size = max(size.columns, 1), max(size.lines, 1)
        return self._size

    def write(self, data: bytes) -> None:
        """It may take long, as a terminal can be stopped. Of one that is gone a signal tells."""
        with suppress(OSError):
            while data:
                data = data[os.write(self._output, data) :]

    def read(self, to: Callable[[bytes], None]) -> None:
        """What was typed; nothing at its end. To be called when there is something."""
        try:
            to(os.read(self._input, 65536))
        except OSError:  # the terminal is gone
            to(b"")

    @property
    def input(self) -> int:
        return self._input

"""Plays a recording in this terminal with its original timing."""

from __future__ import annotations

import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ptyctl.core.sanitizer import TerminalSanitizer
from ptyctl.core.screen import ScreenModel
from ptyctl.core.session_export import Recording
from ptyctl.daemon.errors import EXIT_INTERRUPTED

#: Resets state that a recording may have set: soft reset (DECSTR), margins, attributes, mouse, focus and paste modes, cursor.
_RESET = b"\x1b[!p\x1b[r\x1b[m\x1b[?1000;1002;1003;1004;1005;1006;1015;2004;1l\x1b[?25h"
_LEAVE_ALTERNATE_SCREEN = b"\x1b[?1049l"
#: Moves to a new line at the bottom: this terminal can have more rows than the recording.
_BOTTOM = b"\x1b[999;1H\r\n"


def play(recording: Recording, speed: float, max_pause_s: float) -> int:
    """Write the recording to stdout and return the exit code, which is 130 after Ctrl-C."""
    screen, sanitizer = ScreenModel(recording.cols, recording.rows, scrollback=0), TerminalSanitizer()
    previous = recording.started_at
    try:
        with _echo_disabled():
            for frame in recording.frames:
                time.sleep(min((frame.ts - previous) / 1000, max_pause_s) / speed)
                previous = frame.ts
                data = sanitizer.feed(frame.data)
                screen.feed(data)
                _write(data)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        if sys.stdout.isatty():
            _write((_LEAVE_ALTERNATE_SCREEN if screen.snapshot().alt_screen else b"") + _RESET + _BOTTOM)
    return 0


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@contextmanager
def _echo_disabled() -> Iterator[None]:
    """Turn off echo and line editing of the terminal, and discard input at the end. Ctrl-C still works."""
    if not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    original = termios.tcgetattr(terminal)
    silent = termios.tcgetattr(terminal)
    silent[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, original)

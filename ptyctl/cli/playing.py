"""Plays a recording in this terminal, in its own time."""

from __future__ import annotations

import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ptyctl.core.recording import Recording
from ptyctl.core.sanitizer import TerminalSanitizer
from ptyctl.core.screen import ScreenModel

#: Takes back what the recording may have set: soft reset (DECSTR), margins, mouse, focus, paste and cursor keys.
_LEAVE = b"\x1b[!p\x1b[r\x1b[m\x1b[?1000;1002;1003;1004;1005;1006;1015;2004;1l\x1b[?25h"
#: A free line below all that was played: this terminal may have more rows than the recording, which nobody can know here.
_BOTTOM = b"\x1b[999;1H\r\n"
_LEAVE_ALTERNATE = b"\x1b[?1049l"
_INTERRUPTED = 128 + signal.SIGINT


def play(recording: Recording, speed: float, max_pause_s: float) -> int:
    """The exit code: 130 where it was stopped."""
    screen, sanitizer = ScreenModel(recording.cols, recording.rows, scrollback=0), TerminalSanitizer()
    before = recording.started_at
    try:
        with _quiet():
            for frame in recording.frames:
                time.sleep(min((frame.ts - before) / 1000, max_pause_s) / speed)
                before = frame.ts
                data = sanitizer.feed(frame.data)
                screen.feed(data)
                _write(data)
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        if sys.stdout.isatty():
            _write((_LEAVE_ALTERNATE if screen.snapshot().alt_screen else b"") + _LEAVE + _BOTTOM)
    return 0


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@contextmanager
def _quiet() -> Iterator[None]:
    """What is typed meanwhile is not shown, and not kept for the shell. Ctrl-C still works."""
    if not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    silent = termios.tcgetattr(terminal)
    silent[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)

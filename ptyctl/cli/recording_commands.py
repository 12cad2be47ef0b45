"""`ptyctl export` and `replay`: a session's recording from its files, without a daemon; replay keeps its timing."""

from __future__ import annotations

import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ptyctl.core.sanitizer import TerminalSanitizer
from ptyctl.daemon.errors import EXIT_INTERRUPTED

from .options import SessionName
from .output import open_private, print_text, progress

if TYPE_CHECKING:
    from ptyctl.core.session_export import Recording

#: Resets state that a recording may have set: soft reset (DECSTR), margins, attributes, mouse, focus and paste modes, cursor.
_RESET = b"\x1b[!p\x1b[r\x1b[m\x1b[?1000;1002;1003;1004;1005;1006;1015;2004;1l\x1b[?25h"
_LEAVE_ALTERNATE_SCREEN = b"\x1b[?1049l"
#: Moves to a new line at the bottom: this terminal can have more rows than the recording.
_BOTTOM = b"\x1b[999;1H\r\n"


def export(
    name: SessionName,
    as_asciicast: Annotated[
        bool, typer.Option("--asciicast", help="Timed recording, for asciinema and other players.")
    ] = False,
    as_text: Annotated[bool, typer.Option("--text", help="Plain text.")] = False,
    as_html: Annotated[bool, typer.Option("--html", help="Last screen in colours, with the scrollback.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not stdout.")] = None,
) -> None:
    """Export a session's recording as asciicast, text or HTML."""
    if as_asciicast + as_text + as_html != 1:
        raise typer.BadParameter("give one of --asciicast, --text and --html")
    chunks = _render(_load_recording(name), as_asciicast=as_asciicast, as_text=as_text)
    if output is None:
        for chunk in chunks:
            print_text(chunk)
        return
    with open_private(output) as file, progress(f"writing {output.name}"):
        file.writelines(chunks)


def replay(
    name: SessionName,
    speed: Annotated[float, typer.Option(metavar="FACTOR", min=0.001, help="Playback speed; 2 is twice as fast.")] = 1.0,
    max_pause: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Shorten pauses to this length.")] = 3.0,
) -> None:
    """Play a session's recording in this terminal. Ctrl-C stops."""
    raise typer.Exit(_play(_load_recording(name), speed, max_pause))


def _load_recording(name: str) -> Recording:
    from ptyctl.controller.recovery import find_session_folder
    from ptyctl.controller.settings import load_settings
    from ptyctl.session.transcript.recording_reader import read_recording

    return read_recording(find_session_folder(load_settings().state_dir / "sessions", name))


def _render(recording: Recording, *, as_asciicast: bool, as_text: bool) -> Iterator[str]:
    from ptyctl.core.session_export import asciicast, html, plain_text

    if as_asciicast:
        yield from (f"{line}\n" for line in asciicast(recording))
    else:
        yield plain_text(recording) if as_text else html(recording)


def _play(recording: Recording, speed: float, max_pause_s: float) -> int:
    """Write the recording to stdout and return the exit code, which is 130 after Ctrl-C."""
    from ptyctl.core.screen import ScreenModel

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

"""`ptyctl export` and `replay`: read a session's recording from its files, without a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import SessionName
from .output import open_private, print_text, progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptyctl.core.session_export import Recording


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
    from .player import play

    raise typer.Exit(play(_load_recording(name), speed, max_pause))


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

"""`ptyctl export` and `replay`: a session's recording, also after its end. They read its files, and need no daemon."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import shown
from .options import SessionName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptyctl.core.recording import Recording


class _Format(StrEnum):
    ASCIICAST = "asciicast"
    TEXT = "text"
    HTML = "html"


def export(
    name: SessionName,
    as_asciicast: Annotated[bool, typer.Option("--asciicast", help="With its times, for asciinema and other players.")] = False,
    as_text: Annotated[bool, typer.Option("--text", help="What a person would have read.")] = False,
    as_html: Annotated[bool, typer.Option("--html", help="The last screen in colours, and what has scrolled off.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of standard output.")] = None,
) -> None:
    """Write what a session has shown as an asciicast, as text, or as a page."""
    chosen = [kind for kind, wanted in zip(_Format, (as_asciicast, as_text, as_html), strict=True) if wanted]
    if len(chosen) != 1:
        raise typer.BadParameter("give one of --asciicast, --text and --html")
    pieces = _written(_take(name), chosen[0])
    if output is None:
        for piece in pieces:
            shown.text(piece)
        return
    with output.open("w", encoding="utf-8") as file, shown.progress(f"writing {output.name}"):
        file.writelines(pieces)


def replay(
    name: SessionName,
    speed: Annotated[float, typer.Option(metavar="FACTOR", min=0.001, help="So many times as fast.")] = 1.0,
    max_pause: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Shorten longer pauses to this.")] = 3.0,
) -> None:
    """Play a session as it went. Ctrl-C stops."""
    from .playing import play

    raise typer.Exit(play(_take(name), speed, max_pause))


def _take(name: str) -> Recording:
    from ptyctl.controller.kept_folders import kept_folder
    from ptyctl.controller.settings import load_settings
    from ptyctl.session.transcript.recorded import recorded

    return recorded(kept_folder(load_settings().state_dir / "sessions", name))


def _written(recording: Recording, kind: _Format) -> Iterator[str]:
    from ptyctl.core.recording import asciicast, html, plain_text

    if kind is _Format.ASCIICAST:
        yield from (f"{line}\n" for line in asciicast(recording))
    elif kind is _Format.TEXT:
        yield plain_text(recording)
    else:
        yield html(recording)

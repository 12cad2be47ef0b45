"""`ptyctl export` and `replay`: a session's recording, also after its end. They read its files, and need no daemon."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import SessionName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptyctl.core.recording import Take


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
    take = _take(name)
    with output.open("w", encoding="utf-8") if output else nullcontext(sys.stdout) as file:
        for piece in _written(take, chosen[0]):
            file.write(piece)


def replay(
    name: SessionName,
    speed: Annotated[float, typer.Option(metavar="FACTOR", min=0.001, help="So many times as fast.")] = 1.0,
    max_pause: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Shorten longer pauses to this.")] = 3.0,
) -> None:
    """Play a session as it went. Ctrl-C stops."""
    from .playing import play

    raise typer.Exit(play(_take(name), speed, max_pause))


def _take(name: str) -> Take:
    from ptyctl.controller.settings import load_settings
    from ptyctl.session.recorded import recorded

    return recorded(_folder(load_settings().state_dir / "sessions", name))


def _folder(sessions: Path, name: str) -> Path:
    """Where the session is kept that `name` means: an open console or device, or an id or a part of it."""
    from ptyctl.api.errors import invalid

    ids = [folder.name for folder in sessions.iterdir() if name in folder.name] if sessions.is_dir() else []
    ids = [name] if name in ids else ids or _consoles(name)
    if len(ids) > 1:
        raise invalid(f"{name} means {len(ids)} sessions: {', '.join(ids)}; give more of the id")
    return sessions / (ids[0] if ids else Path(name).name)


def _consoles(name: str) -> list[str]:
    from ptyctl.daemon.asking import ask
    from ptyctl.daemon.place import Place

    open_ones = (ask(Place(), "ptyctl_session", {"action": "list"}) or {}).get("sessions", [])
    return [entry["session_id"] for entry in open_ones if name in (entry.get("device_id"), entry.get("device"))]


def _written(take: Take, kind: _Format) -> Iterator[str]:
    from ptyctl.core import exported

    if kind is _Format.ASCIICAST:
        from ptyctl.core.recording import asciicast

        yield from (f"{line}\n" for line in asciicast(take))
    elif kind is _Format.TEXT:
        yield exported.text(take)
    else:
        yield exported.html(take)

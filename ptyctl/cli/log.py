"""`ptyctl log`: what a session has printed, line by line."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from . import shown
from .options import SessionName

if TYPE_CHECKING:
    from ptyctl.api import Controller, LogLine


def log(
    name: SessionName,
    console: Annotated[bool, typer.Option("--console", help="The time before each line, as a console server's log.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, each with its time.")] = False,
) -> None:
    """Print what a session has shown, as lines of text; also of one that has ended."""
    from .calling import call

    call(lambda controller: _print(controller, name, console=console, as_json=as_json))


async def _print(controller: Controller, name: str, *, console: bool, as_json: bool) -> None:
    from ptyctl.api import LogRequest

    from .calling import found

    session_id = await found(controller, name)
    offset, complete = 0, False
    while not complete:
        page = await controller.log(LogRequest(session_id=session_id, from_offset=offset))
        offset, complete = page.resume_offset, page.complete
        if as_json:
            for line in page.lines:
                shown.as_json(line.payload())
        elif console:
            sys.stdout.writelines(f"{_time(line)}  {_text(line)}\n" for line in page.lines)
        else:
            sys.stdout.writelines(f"{_text(line)}\n" for line in page.lines if line.kind != "incarnation")


def _time(line: LogLine) -> str:
    return datetime.fromtimestamp(line.ts / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")


def _text(line: LogLine) -> str:
    """On a terminal nothing of it may act."""
    text = shown.harmless(line.text)
    return f"--- {text}" if line.kind == "incarnation" else text

"""`ptyctl log`: what a session has printed, line by line."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ptyctl.api import Controller, LogLine

EXIT_FAULTS = 1


def log(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session's id, or a console's name.")],
    console: Annotated[bool, typer.Option("--console", help="The time before each line, as a console server's log.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, each with its time.")] = False,
) -> None:
    """Print what a session has shown, as lines of text; also of one that has ended."""
    from ptyctl.api.errors import PtyctlError
    from ptyctl.daemon.client import RemoteController

    async def show() -> None:
        async with await RemoteController.connect() as controller:
            await _print(controller, session, console=console, as_json=as_json)

    try:
        asyncio.run(show())
    except PtyctlError as error:
        typer.echo(error.message, err=True)
        raise typer.Exit(EXIT_FAULTS) from None


async def _print(controller: Controller, name: str, *, console: bool, as_json: bool) -> None:
    from ptyctl.api import LogRequest, SessionRequest

    entries = (await controller.session(SessionRequest(action="list"))).sessions or []
    session_id = next((entry.session_id for entry in entries if entry.device_id == name), name)
    offset, complete = 0, False
    while not complete:
        page = await controller.log(LogRequest(session_id=session_id, from_offset=offset))
        offset, complete = page.resume_offset, page.complete
        for line in page.lines:
            if as_json:
                typer.echo(json.dumps(line.payload(), ensure_ascii=False))
            elif console:
                typer.echo(f"{_time(line)}  {_text(line)}")
            elif line.kind != "incarnation":
                typer.echo(_text(line))


def _time(line: LogLine) -> str:
    return datetime.fromtimestamp(line.ts / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")


def _text(line: LogLine) -> str:
    """On a terminal nothing of it may act."""
    text = "".join(letter if letter.isprintable() or letter == "\t" else "\ufffd" for letter in line.text)
    return f"--- {text}" if line.kind == "incarnation" else text

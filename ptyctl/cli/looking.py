"""`ptyctl tail`, `screen`, `blocks` and `search`: what a session shows and has shown. Looking needs no lock."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from . import shown
from .options import AsJson, SessionName


def tail(
    name: SessionName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until the session ends.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="So many lines of what is there.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Print the end of a session's text."""
    from .calling import call, found
    from .following import follow_text, last_lines

    async def run(controller: Any) -> None:
        session_id = await found(controller, name)
        reply = await last_lines(controller, session_id, lines)
        if as_json and not follow:
            shown.as_json(reply.payload())
            return
        _write(reply.chunk or "", as_json)
        if not follow:
            return
        async for text in follow_text(controller, session_id, reply.next_cursor or "0"):
            _write(text, as_json)

    call(run)


def screen(
    name: SessionName,
    at: Annotated[str | None, typer.Option(metavar="N", help="As it was: a raw offset, or the end of a block.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what is on the screen, in colours on a terminal."""
    from ptyctl.api.asking import asked
    from ptyctl.api.pty import PtyReadScreen
    from ptyctl.api.screen import ScreenReply

    from .calling import call, found
    from .colours import coloured

    place: dict[str, Any] = {} if at is None else {"at": int(at) if at.isdecimal() else at}

    async def read(controller: Any) -> ScreenReply:
        request = PtyReadScreen.of({"session_id": await found(controller, name), "attributes": True, **place})
        return await asked(controller, request, ScreenReply)

    reply = call(read)
    if as_json:
        shown.as_json(reply.payload())
    elif sys.stdout.isatty():
        typer.echo("\n".join(_without_empty_end(list(map(coloured, reply.rows, reply.attributes or [])))), color=True)
    else:
        typer.echo("\n".join(_without_empty_end(reply.rows)))


def blocks(
    name: SessionName,
    output: Annotated[str | None, typer.Option(metavar="BLOCK", help="Print the text of this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many, the newest.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the commands that ran, or print what one of them printed."""
    from .blocks import list_blocks, print_block

    if output is not None:
        print_block(name, output, as_json)
    else:
        list_blocks(name, limit, as_json)


def search(
    name: SessionName,
    query: Annotated[str, typer.Argument(help="What a line holds.")],
    regex: Annotated[bool, typer.Option("--regex", "-e", help="It is an RE2 pattern.")] = False,
    cmd: Annotated[str | None, typer.Option(help="Only in commands that hold this.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50,
    as_json: AsJson = False,
) -> None:
    """Find lines in what commands printed. Exit code 1 where there are none."""
    from .blocks import search_blocks

    if not search_blocks(name, query, regex, cmd, limit, as_json):
        raise typer.Exit(1)


def _without_empty_end(rows: list[str]) -> list[str]:
    """A shell that has just begun has one line, and not forty."""
    return rows[: max((number for number, row in enumerate(rows, 1) if row), default=0)]


def _write(text: str, as_json: bool) -> None:
    if as_json:
        shown.as_json({"text": text})
    else:
        shown.text(text)

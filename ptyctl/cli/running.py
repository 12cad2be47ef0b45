"""`ptyctl exec` and `send`: type into a session."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from . import shown
from .options import AsJson, SessionName, Task


def exec_(
    name: SessionName,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="As it would be typed; its words are put together.")
    ],
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Give up waiting then; it goes on. For ever, unless given.")
    ] = None,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Run a command, print its output, and exit as it did. Ctrl-C interrupts it; twice, and it is left alone.

    Exit codes from 101 on are ptyctl's own: 103 no such session, 104 locked or busy, 105 timeout, 106 the far end is gone.
    """
    from .execution import execute
    from .failing import EXEC_OFFSET, FAILURES, told

    try:
        code = execute(name, " ".join(command), timeout, task, as_json)
    except FAILURES as error:
        raise typer.Exit(EXEC_OFFSET + told(error)) from None
    raise typer.Exit(code)


def send(
    name: SessionName,
    text: Annotated[str | None, typer.Argument(help="What to type, Enter behind it; - takes it from stdin as it is.")] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="Press a key, behind the text: ctrl_c, up, f1, break ...")
    ] = None,
    enter: Annotated[bool, typer.Option(" /--no-enter", show_default=False, help="Do not press Enter behind the text.")] = True,
    sensitive: Annotated[bool, typer.Option("--sensitive", help="A secret: only its length is kept.")] = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Type text, or press keys."""
    if text is None and not key:
        raise typer.BadParameter("give a text, or --key")
    from ptyctl.api.io import IoRequest

    from .calling import call, found, task_name

    data = sys.stdin.read() if text == "-" else None if text is None else text + "\n" * enter

    async def write(controller: Any) -> list[dict[str, Any]]:
        common = {"session_id": await found(controller, name), "action": "write", "task_id": task_name(task)}
        secret = {"sensitive": True} if sensitive else {}
        wanted = [{"data": data, **secret}] if data else []
        wanted += [{"key": pressed} for pressed in key or []]
        return [(await controller.io(IoRequest.of({**common, **what}))).payload() for what in wanted]

    replies = call(write)
    if as_json:
        shown.as_json(
            {"bytes_written": sum(reply["bytes_written"] for reply in replies), "next_cursor": _first_cursor(replies)}
        )


def _first_cursor(replies: list[dict[str, Any]]) -> str | None:
    """Where the answer can be read from."""
    return replies[0]["next_cursor"] if replies else None

"""`ptyctl exec` and `send`: run a command, type text, press keys."""

from __future__ import annotations

from typing import Annotated

import typer

from .frequent_commands import exec_command, send_input
from .options import AsJson, SessionName, Task


def exec_(
    name: SessionName,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The words are joined with spaces and typed as one line.")
    ],
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Stop waiting after this time; the command keeps running. Default: none."),
    ] = None,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Run a command, print its output, and exit with its exit code.

    Ctrl-C interrupts the command; a second Ctrl-C stops waiting for it.

    Exit codes above 100 are ptyctl's own: 103 no such session, 104 locked or busy, 105 timeout, 106 connection lost.
    """
    raise typer.Exit(exec_command(name, " ".join(command), timeout=timeout, task=task, as_json=as_json))


def send(
    name: SessionName,
    text: Annotated[str | None, typer.Argument(help="Text to type, followed by Enter; - types stdin unchanged.")] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="Key to press after the text: ctrl_c, up, f1, break ...")
    ] = None,
    enter: Annotated[bool, typer.Option(" /--no-enter", show_default=False, help="Do not press Enter after the text.")] = True,
    sensitive: Annotated[bool, typer.Option("--sensitive", help="The text is a secret: record only its length.")] = False,
    approval: Annotated[
        str | None, typer.Option(metavar="ID", help="Id of the approval request that an earlier try of this command made.")
    ] = None,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Type text or press keys."""
    if text is None and not key:
        raise typer.BadParameter("give a text, or --key")
    send_input(name, text, key or [], enter=enter, sensitive=sensitive, approval=approval, task=task, as_json=as_json)

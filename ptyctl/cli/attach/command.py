"""`ptyctl attach` and its options."""

from __future__ import annotations

from typing import Annotated

import typer

from ptyctl.cli.options import SessionName, Task


def attach(
    name: SessionName,
    write: Annotated[bool, typer.Option("--write", "-w", help="Take the lock, to type.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="With --write: wait for the lock in the queue, and look on meanwhile.")
    ] = False,
    force: Annotated[
        str | None, typer.Option(metavar="REASON", help="Take the lock from whoever has it, and tell them why.")
    ] = None,
    status: Annotated[bool, typer.Option(" /--no-status", help="Leave out the row that tells who types.")] = True,
    task: Task = None,
) -> None:
    """Watch a session in this terminal, or type into it with --write. At the begin of a line ~. detaches, and ~? helps."""
    begin(name, write=write or wait or force is not None, wait=wait, force=force, status=status, task=task)


def begin(
    name: str, *, write: bool, wait: bool = False, force: str | None = None, status: bool = True, task: str | None = None
) -> None:
    """Attaches this terminal; the process ends with it."""
    from .running import Wishes, run
    from .terminal import Terminal

    if not Terminal.is_one():
        raise typer.BadParameter("attach needs a terminal; without one use: ptyctl tail -f")
    raise typer.Exit(run(Wishes(name, task, write, wait, force, status)))

"""`ptyctl attach` and its options."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ptyctl.cli.options import SessionName, Task

from .wishes import Wishes


def attach(
    name: SessionName,
    write: Annotated[bool, typer.Option("--write", "-w", help="Take the lock, to type.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="With --write: wait for the lock in the queue, and look on meanwhile.")
    ] = False,
    force: Annotated[
        str | None, typer.Option(metavar="REASON", help="Take the lock from whoever has it, and tell them why.")
    ] = None,
    ttl: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.1, max=86_400, help="Should this terminal be killed, its lock is free after this."
        ),
    ] = 30,
    status: Annotated[bool, typer.Option(" /--no-status", show_default=False, help="No row that tells who types.")] = True,
    task: Task = None,
) -> None:
    """Watch a session in this terminal, or type into it with --write. At the beginning of a line ~. detaches, and ~? helps."""
    begin(Wishes(name, task, ttl, write or wait or force is not None, wait, force, status))


def begin(wishes: Wishes) -> None:
    """Attaches this terminal; the process ends with it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.BadParameter("attach needs a terminal; without one use: ptyctl tail -f")
    if os.environ.get("TERM") == "dumb":
        raise typer.BadParameter("attach draws a screen, which this terminal (TERM=dumb) cannot show; use: ptyctl tail -f")
    from .running import run

    raise typer.Exit(run(wishes))

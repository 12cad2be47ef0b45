"""`ptyctl attach` and its options."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

import typer

from ptyctl.cli.errors import print_message
from ptyctl.cli.options import SessionName, Task


def attach(
    name: SessionName,
    write: Annotated[bool, typer.Option("--write", "-w", help="Take the lock and type.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait in the queue for the lock, and watch meanwhile.")] = False,
    force: Annotated[
        str | None, typer.Option(metavar="REASON", help="Take the lock from its holder, who receives the reason.")
    ] = None,
    ttl: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.1, max=86_400, help="Lifetime of the lock if this process is killed."),
    ] = 30,
    status: Annotated[bool, typer.Option(" /--no-status", show_default=False, help="Do not show the status row.")] = True,
    task: Task = None,
) -> None:
    """Watch a session in this terminal, or type into it with --write.

    At the beginning of a line, ~. detaches and ~? shows the other escapes.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.BadParameter("attach needs a terminal; without one use: ptyctl tail -f")
    if os.environ.get("TERM") == "dumb":
        raise typer.BadParameter("attach cannot draw a screen on this terminal (TERM=dumb); use: ptyctl tail -f")
    from . import client

    options = client.AttachOptions(name, task, ttl, write or wait or force is not None, wait, force, status)
    print_message(asyncio.run(client.attach(options)))

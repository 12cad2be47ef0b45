"""`ptyctl exec`, `send`, `lock`, `unlock` and `takeover`: type into a session, and the lock for it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ptyctl.api.controller import Controller

from .client import call_session, wait_for_lock
from .frequent_commands import exec_command, lock_action, print_holder, send_input
from .names import resolve_task
from .options import AsJson, SessionName, Task
from .output import progress

_Ttl = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0.001, max=86_400, help="Lifetime of the lock; each lock or heartbeat renews it."),
]


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


def lock(
    name: SessionName,
    ttl: _Ttl = 60,
    wait: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Wait in the queue for up to this time.")] = 0,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Take the lock of a session, or extend it. Only the holder can type; all can watch."""

    if not wait:
        print_holder(lock_action("lock", name, task, lock_ttl_ms=round(ttl * 1000)), as_json=as_json)
        return

    async def take(controller: Controller, session_id: str) -> dict[str, Any]:
        return (await wait_for_lock(controller, session_id, resolve_task(task), round(ttl * 1000), wait)).payload()

    with progress("waiting for the lock"):
        reply = call_session(name, take)
    print_holder(reply, as_json=as_json)


def takeover(
    name: SessionName,
    reason: Annotated[str, typer.Option(help="Sent to the previous holder, and recorded.")],
    ttl: _Ttl = 60,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Take the lock from its holder."""
    reply = lock_action("lock", name, task, lock_ttl_ms=round(ttl * 1000), force=True, reason=reason)
    print_holder(reply, as_json=as_json)


def unlock(name: SessionName, task: Task = None, as_json: AsJson = False) -> None:
    """Release the lock, or leave the queue for it."""
    print_holder(lock_action("unlock", name, task), as_json=as_json)

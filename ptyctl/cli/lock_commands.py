"""`ptyctl lock`, `unlock` and `takeover`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ptyctl.api.controller import Controller

from .client import call_session, wait_for_lock
from .frequent_commands import lock_action, print_holder
from .names import resolve_task
from .options import AsJson, SessionName, Task
from .output import progress

_Ttl = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0.001, max=86_400, help="Lifetime of the lock; each lock or heartbeat renews it."),
]


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

"""`ptyctl lock`, `unlock` and `takeover`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any

import typer

from ptyctl.api.controller import Controller

from .client import call_session, resolve_task, session_action, wait_for_lock
from .options import AsJson, SessionName, Task
from .output import print_json, progress, replace_controls

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

    async def take(controller: Controller, session_id: str) -> dict[str, Any]:
        return (await wait_for_lock(controller, session_id, resolve_task(task), round(ttl * 1000), wait)).payload()

    with progress("waiting for the lock") if wait else nullcontext():
        reply = call_session(name, take)
    _print_holder(reply, as_json)


def takeover(
    name: SessionName,
    reason: Annotated[str, typer.Option(help="Sent to the previous holder, and recorded.")],
    ttl: _Ttl = 60,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Take the lock from its holder."""
    _print_holder(run_lock_action("lock", name, task, lock_ttl_ms=round(ttl * 1000), force=True, reason=reason), as_json)


def unlock(name: SessionName, task: Task = None, as_json: AsJson = False) -> None:
    """Release the lock, or leave the queue for it."""
    _print_holder(run_lock_action("unlock", name, task), as_json)


def run_lock_action(action: str, name: str, task: str | None, **fields: object) -> dict[str, Any]:
    """Call a `session` action that depends on the lock, as this terminal's task or `task`, and return the reply's fields."""

    async def act(controller: Controller, session_id: str) -> dict[str, Any]:
        reply = await session_action(controller, action, session_id=session_id, task_id=resolve_task(task), **fields)
        return reply.payload()

    return call_session(name, act)


def _print_holder(reply: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(reply)
        return
    holder = reply.get("lock_holder")
    typer.echo(f"locked by: {replace_controls(holder)}" if holder else "not locked")

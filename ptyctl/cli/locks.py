"""`ptyctl lock`, `unlock`, `takeover` and `close`: who may type, and the end."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any

import typer

from . import shown
from .options import AsJson, SessionName, Task

_Ttl = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.001, max=86_400, help="How long it lasts without another lock or heartbeat.")
]


def lock(
    name: SessionName,
    ttl: _Ttl = 60,
    wait: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Wait so long for another's lock, in the queue.")] = 0,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Take the lock, or extend it: only its holder may type, and all may watch."""
    _show(_locked(name, task, ttl, wait), as_json)


def takeover(
    name: SessionName,
    reason: Annotated[str, typer.Option(help="Told to whoever loses the lock, and kept.")],
    ttl: _Ttl = 60,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Take the lock from whoever holds it."""
    _show(_acted("lock", name, task, lock_ttl_ms=round(ttl * 1000), force=True, reason=reason), as_json)


def unlock(name: SessionName, task: Task = None, as_json: AsJson = False) -> None:
    """Give the lock back, or the place in the queue."""
    _show(_acted("unlock", name, task), as_json)


def close(
    name: SessionName,
    force: Annotated[
        bool, typer.Option("--force", help="Though another has the lock, and without a grace for programs.")
    ] = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """End a session; what it showed is kept."""
    reply = _acted("close", name, task, force=True if force else None)
    if as_json:
        shown.as_json(reply)
    else:
        typer.echo(f"closed: {reply['session_id']}")


def _locked(name: str, task: str | None, ttl: float, wait: float) -> dict[str, Any]:
    from .calling import call, found, task_name
    from .waiting import wait_for_lock

    async def lock_it(controller: Any) -> dict[str, Any]:
        session_id = await found(controller, name)
        return (await wait_for_lock(controller, session_id, task_name(task), round(ttl * 1000), wait)).payload()

    with shown.progress("waiting for the lock") if wait else nullcontext():
        return call(lock_it)


def _acted(action: str, name: str, task: str | None, **fields: object) -> dict[str, Any]:
    from .calling import call, found, session, task_name

    async def act(controller: Any) -> dict[str, Any]:
        session_id = await found(controller, name)
        return (await session(controller, action, session_id=session_id, task_id=task_name(task), **fields)).payload()

    return call(act)


def _show(reply: dict[str, Any], as_json: bool) -> None:
    if as_json:
        shown.as_json(reply)
        return
    holder = reply.get("lock_holder")
    typer.echo(f"locked by: {shown.harmless(holder)}" if holder else "not locked")

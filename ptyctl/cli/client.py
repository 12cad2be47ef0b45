"""Connects to the daemon, resolves session and task names, and waits for locks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.daemon import control
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.errors import DaemonError
from ptyctl.daemon.runtime_dir import RuntimeDir

from .errors import session_named
from .names import MAX_CALL_MS, SESSION_ID, ListedSession, match_session

T = TypeVar("T")

_POLL_S = 0.05


def call_daemon(work: Callable[[RemoteController], Awaitable[T]]) -> T:
    """Run `work` with a connection to this user's daemon, which is started if necessary."""

    async def connected() -> T:
        async with await RemoteController.connect() as controller:
            return await work(controller)

    return asyncio.run(connected())


def call_session(name: str, work: Callable[[RemoteController, str], Awaitable[T]]) -> T:
    """Run `work` with a connection to the daemon and the id of the session that `name` denotes."""

    async def resolved(controller: RemoteController) -> T:
        with session_named(name):
            return await work(controller, await resolve_session(controller, name))

    return call_daemon(resolved)


def ask_daemon(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a running daemon's reply. Starts no daemon; returns no fields without one, or if it refuses."""
    try:
        return control.request(RuntimeDir(), method, params) or {}
    except DaemonError:  # of another version, for example
        return {}


async def connect_successor(session_id: str) -> RemoteController | None:
    """Connect to the daemon that follows one that ended.

    Returns None, and starts no daemon, if the old daemon closed the session before it ended.
    """
    from ptyctl.controller.settings import load_settings
    from ptyctl.session.transcript.stored_sessions import was_closed

    runtime_dir = RuntimeDir()
    while await asyncio.to_thread(control.find_daemon, runtime_dir) is None:
        if not control.is_stopping(runtime_dir):
            if was_closed(load_settings().state_dir / "sessions" / session_id):
                return None
            break
        await asyncio.sleep(_POLL_S)
    return await RemoteController.connect(runtime_dir)


async def session_action(controller: Controller, action: str, **fields: object) -> SessionReply:
    """Call the `session` method with the fields that are not None."""
    return await controller.session(SessionRequest.of({"action": action, **without_none(fields)}))


async def resolve_session(controller: Controller, name: str) -> str:
    """Return the id of the session that `name` denotes. A complete id is returned unchanged, also of an ended session.

    Raises:
        PtyctlError: NOT_FOUND; INVALID_ARGUMENT if the name is ambiguous.
    """
    if SESSION_ID.fullmatch(name):
        return name
    entries = (await session_action(controller, "list")).sessions or []
    return match_session(
        [ListedSession(*(getattr(entry, field) for field in ListedSession._fields)) for entry in entries], name
    )


async def wait_for_lock(
    controller: Controller, session_id: str, task_id: str, ttl_ms: int, wait_s: float | None
) -> SessionReply:
    """Take the lock, and wait in the queue for up to `wait_s`, or without a limit if that is None.

    Raises:
        PtyctlError: LOCKED
    """
    loop = asyncio.get_running_loop()
    deadline = None if wait_s is None else loop.time() + wait_s
    while True:
        remaining_ms = MAX_CALL_MS if deadline is None else max((deadline - loop.time()) * 1000, 0)
        wait_ms = round(min(remaining_ms, MAX_CALL_MS)) or None
        try:
            return await session_action(
                controller, "lock", session_id=session_id, task_id=task_id, lock_ttl_ms=ttl_ms, wait_ms=wait_ms
            )
        except PtyctlError as error:
            if error.code is not ErrorCode.LOCKED or (deadline is not None and remaining_ms <= MAX_CALL_MS):
                raise


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}

"""Waits that are longer than one call may last: asked again until they are over."""

from __future__ import annotations

import asyncio

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import SessionReply

from .calling import session

#: What one call waits; a place in the queue is kept for whoever asks again at once.
CALL_MS = 50_000


async def wait_for_lock(
    controller: Controller, session_id: str, task_id: str, ttl_ms: int, wait_s: float | None
) -> SessionReply:
    """The lock, within `wait_s`, or whenever it is free where that is None.

    Raises:
        PtyctlError: LOCKED
    """
    loop = asyncio.get_running_loop()
    deadline = None if wait_s is None else loop.time() + wait_s
    while True:
        left_ms = CALL_MS if deadline is None else max((deadline - loop.time()) * 1000, 0)
        try:
            return await session(
                controller, "lock",
                session_id=session_id, task_id=task_id, lock_ttl_ms=ttl_ms, wait_ms=round(min(left_ms, CALL_MS)) or None,
            )  # fmt: skip
        except PtyctlError as error:
            if error.code is not ErrorCode.LOCKED or (deadline is not None and left_ms <= CALL_MS):
                raise

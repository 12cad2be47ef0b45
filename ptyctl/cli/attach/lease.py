"""The lease of an attached terminal: the session's lock, renewed by heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cli.client import session_action, wait_for_lock


class AttachLease:
    """The lock of one task on one session.

    Attributes:
        held: whether the lock was held when the daemon last reported it.
        waiting: whether this task is in the queue.
    """

    def __init__(self, controller: Controller, session_id: str, task_id: str, ttl_s: float) -> None:
        self.held = False
        self.waiting = False
        self.session_id = session_id
        self.task_id = task_id
        self._controller = controller
        self._ttl_ms = round(ttl_s * 1000)
        self._subscribers: list[Callable[[], None]] = []

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each acquisition, loss or release."""
        self._subscribers.append(changed)

    async def acquire(self, *, force: str | None = None) -> None:
        """Take the lock, or raise PtyctlError LOCKED. With a reason in `force`, take it from its holder."""
        await self._call("lock", lock_ttl_ms=self._ttl_ms, force=True if force is not None else None, reason=force)
        self._set_held(True)

    async def wait(self) -> None:
        """Wait in the queue until the lock is acquired."""
        self.waiting = True
        try:
            await wait_for_lock(self._controller, self.session_id, self.task_id, self._ttl_ms, None)
        finally:
            self.waiting = False
        self._set_held(True)

    async def release(self) -> None:
        """Release the lock, or leave the queue. Errors are ignored: the lock is not ours any more."""
        if self.held or self.waiting:
            self._set_held(False)
            with suppress(PtyctlError):
                await self._call("unlock")

    async def keep_alive(self) -> None:
        """Renew the lock three times per TTL while it is held; runs until cancelled."""
        while True:
            await asyncio.sleep(self._ttl_ms / 3000)
            if self.held:
                await self.renew()

    async def renew(self) -> None:
        """Send a heartbeat, and detect the loss of the lock. It counts as held when the daemon does not answer."""
        try:
            await self._call("heartbeat", lock_ttl_ms=self._ttl_ms)
        except PtyctlError as error:
            if error.code is not ErrorCode.IO_ERROR:
                self._set_held(False)

    async def _call(self, action: str, **fields: object) -> None:
        await session_action(self._controller, action, session_id=self.session_id, task_id=self.task_id, **fields)

    def _set_held(self, held: bool) -> None:
        self.held = held
        for changed in self._subscribers:
            changed()

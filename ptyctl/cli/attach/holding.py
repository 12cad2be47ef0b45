"""The lock of whoever types: taken, kept by heartbeats, given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.cli.calling import session
from ptyctl.cli.waiting import wait_for_lock


class Holding:
    """`held` is whether we hold it; `on_change` is called when that may have changed. Killed, we block others for `ttl_s`."""

    def __init__(self, controller: Controller, session_id: str, task_id: str, ttl_s: float) -> None:
        self.held = False
        self.waiting = False
        self.on_change: Callable[[], None] = lambda: None
        self.session_id = session_id
        self.task_id = task_id
        self._controller = controller
        self._ttl_ms = round(ttl_s * 1000)

    async def take(self) -> None:
        """Raises PtyctlError LOCKED."""
        await self._lock(lock_ttl_ms=self._ttl_ms)

    async def force(self, reason: str) -> None:
        await self._lock(lock_ttl_ms=self._ttl_ms, force=True, reason=reason)

    async def wait(self) -> None:
        """Stands in the queue until it is ours."""
        self.waiting = True
        try:
            await wait_for_lock(self._controller, self.session_id, self.task_id, self._ttl_ms, None)
        finally:
            self.waiting = False
        self._set(True)

    async def release(self) -> None:
        """Gives it back, if it is still ours, or the place in the queue."""
        if self.held or self.waiting:
            self._set(False)
            with suppress(PtyctlError):
                await session(self._controller, "unlock", session_id=self.session_id, task_id=self.task_id)

    async def keep(self) -> None:
        """Beats as long as it is held, until it is cancelled."""
        while True:
            await asyncio.sleep(self._ttl_ms / 3000)
            if self.held:
                await self.beat()

    async def beat(self) -> None:
        """Prolongs it, and finds out where it was lost. Where the daemon is gone it may still be ours in the next."""
        try:
            await session(
                self._controller, "heartbeat",
                session_id=self.session_id, task_id=self.task_id, lock_ttl_ms=self._ttl_ms,
            )  # fmt: skip
        except PtyctlError as error:
            if error.code is not ErrorCode.IO_ERROR:
                self._set(False)

    async def _lock(self, **how: object) -> None:
        await session(self._controller, "lock", session_id=self.session_id, task_id=self.task_id, **how)
        self._set(True)

    def _set(self, held: bool) -> None:
        self.held = held
        self.on_change()

"""The lock of whoever types: taken, kept by heartbeats, given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ptyctl.api.controller import Controller
from ptyctl.api.errors import PtyctlError
from ptyctl.cli.calling import session
from ptyctl.cli.waiting import wait_for_lock

#: Whoever is killed blocks others no longer than this.
TTL_MS = 30_000
_HEARTBEAT_S = TTL_MS / 3000


class Holding:
    """`held` is whether we hold it; `on_change` is called when that may have changed."""

    def __init__(self, controller: Controller, session_id: str, task_id: str, on_change: Callable[[], None]) -> None:
        self.held = False
        self.waiting = False
        self.task_id = task_id
        self._controller = controller
        self._session_id = session_id
        self._on_change = on_change

    async def take(self) -> None:
        """Raises PtyctlError LOCKED."""
        await self._lock(lock_ttl_ms=TTL_MS)

    async def force(self, reason: str) -> None:
        await self._lock(lock_ttl_ms=TTL_MS, force=True, reason=reason)

    async def wait(self) -> None:
        """Stands in the queue until it is ours."""
        self.waiting = True
        try:
            await wait_for_lock(self._controller, self._session_id, self.task_id, TTL_MS, None)
        finally:
            self.waiting = False
        self._set(True)

    async def release(self) -> None:
        """Gives it back, if it is still ours, or the place in the queue."""
        if self.held or self.waiting:
            self._set(False)
            with suppress(PtyctlError):
                await session(self._controller, "unlock", session_id=self._session_id, task_id=self.task_id)

    async def keep(self) -> None:
        """Beats as long as it is held, until it is cancelled."""
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            if self.held:
                try:
                    await session(
                        self._controller, "heartbeat",
                        session_id=self._session_id, task_id=self.task_id, lock_ttl_ms=TTL_MS,
                    )  # fmt: skip
                except PtyctlError:  # it was lost, or the session has ended
                    self._set(False)

    def seen(self, holder: str | None) -> None:
        """Who has it, as the session tells."""
        if self.held and holder != self.task_id:
            self._set(False)

    async def _lock(self, **how: object) -> None:
        await session(self._controller, "lock", session_id=self._session_id, task_id=self.task_id, **how)
        self._set(True)

    def _set(self, held: bool) -> None:
        self.held = held
        self._on_change()

"""Connects consoles with `standby = true` whose owner is unreachable, without an open of a client."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import GivenUp, SessionReply, SessionRequest
from ptyctl.cancellation import cancel_and_wait
from ptyctl.clock import boot_time
from ptyctl.controller.devices import DevicePlacement

from .claim_directory import ClaimDirectory
from .directory import NodeDirectory, find_candidates

_LOG = logging.getLogger(__name__)

#: Interval at which the claims are checked, and the inventory is read again (seconds).
CHECK_S, INVENTORY_S = 0.5, 5.0
#: How much later each further candidate tries, after the least loaded one (seconds).
STEP_S = 2.0
#: How long after a failed attempt the next one follows; how long a new owner must last until the console has one (seconds).
RETRY_S, SETTLED_S = 5.0, 5.0
#: Number of consoles that are connected concurrently: all consoles of a dead node become free at the same time.
MAX_ATTEMPTS = 100

#: Errors that may pass although they are not retryable: another owner was faster, or the line was lost during the login.
_MAY_SUCCEED = (ErrorCode.SESSION_MOVED, ErrorCode.CLAIM_LOST, ErrorCode.REMOTE_CLOSED)

#: Returns the devices of the inventory. Raises PtyctlError.
Placements = Callable[[], Awaitable[Mapping[str, DevicePlacement]]]
#: Returns why a console's last session on this node is not connected automatically, by its device_id. Raises PtyctlError.
GivenUpHere = Callable[[str], Awaitable[GivenUp | None]]
#: Opens a device on this node.
OpenHere = Callable[[SessionRequest], Awaitable[SessionReply]]


class Standby:
    """Follows the claims on standby consoles for one node.

    A console is wanted from the expiry of its owner's lease until it has a new owner. A console that was closed is not wanted.
    The nodes that may reach it try one after the other; the claim decides if two of them try at once.
    """

    def __init__(
        self,
        node: str,
        claimed: ClaimDirectory,
        nodes: NodeDirectory,
        placements: Placements,
        given_up: GivenUpHere,
        open_here: OpenHere,
        now: Callable[[], float] = boot_time,
    ) -> None:
        self._node = node
        self._claimed = claimed
        self._leases = claimed.leases
        self._nodes = nodes
        self._placements = placements
        self._given_up = given_up
        self._open_here = open_here
        self._now = now
        self._devices: dict[str, DevicePlacement] = {}
        self._read_at = float("-inf")
        self._fault: str | None = None
        #: When each wanted console has expired, by device; and the node that owned it.
        self._wanted: dict[str, tuple[float, str]] = {}
        self._retry_at: dict[str, float] = {}
        self._attempts: dict[str, asyncio.Task[None]] = {}

    async def check(self) -> None:
        """Start an attempt for each console that this node should take over now."""
        now = self._now()
        if now >= self._read_at + INVENTORY_S:
            self._read_at = now
            await self._read_inventory()
        for name, device in self._devices.items():
            assert device.device_id is not None
            self._note(name, device.device_id, now)
            is_free = name not in self._attempts and len(self._attempts) < MAX_ATTEMPTS
            if name in self._wanted and is_free and self._is_due(name, device, now):
                attempt = asyncio.create_task(self._take(name, device.device_id), name=f"standby for {name}")
                self._attempts[name] = attempt
                attempt.add_done_callback(lambda done, name=name: self._attempts.pop(name))  # type: ignore[misc]

    async def _read_inventory(self) -> None:
        """Read the standby consoles. Keep the previous ones if the file is faulty; there are none without a file."""
        try:
            devices = await self._placements()
        except PtyctlError as error:
            if error.code is not ErrorCode.NOT_FOUND and error.message != self._fault:
                _LOG.warning("the standby consoles are not known", extra={"why": error.message})
            self._fault = error.message
            return
        self._fault = None
        self._devices = {name: device for name, device in devices.items() if device.standby}

    async def aclose(self) -> None:
        """Cancel the attempts."""
        await cancel_and_wait(*self._attempts.values())

    def _note(self, name: str, device_id: str, now: float) -> None:
        """Note whether a console is wanted."""
        seen = self._claimed.last(device_id)
        if seen is None:
            return
        if self._claimed.owner(device_id) is not None:
            if name in self._wanted and now >= seen.claimed_at + SETTLED_S:
                self._wanted.pop(name)
                self._retry_at.pop(name, None)
        elif not seen.claim.is_released and name not in self._wanted and self._leases.is_complete:
            expires_at = self._leases.expires_at(seen.claim.lease_id, seen.claimed_at)
            self._wanted[name] = expires_at, seen.claim.node

    def _is_due(self, name: str, device: DevicePlacement, now: float) -> bool:
        if device.device_id is None or self._claimed.owner(device.device_id) is not None:
            return False
        expired_at, before = self._wanted[name]
        rows = [row for row in self._nodes.up() if row.node != before or row.node == self._node]
        order = find_candidates(rows, device.node_labels)
        if self._node not in order:
            return False
        return now >= max(expired_at + STEP_S * order.index(self._node), self._retry_at.get(name, float("-inf")))

    async def _take(self, name: str, device_id: str) -> None:
        """Open a console. After a refused login there is no further attempt, because more logins could lock the account."""
        delay_s = RETRY_S
        try:
            _, before = self._wanted[name]
            # a later owner has logged in, so the failure that this node recorded earlier is outdated
            if before == self._node and (given_up := await self._given_up(device_id)) is not None:
                _LOG.warning("a standby console was given up earlier", extra={"device": name, "why": given_up.reason})
                delay_s = math.inf
                return
            await self._open_here(SessionRequest(action="open", device=name))
        except PtyctlError as error:
            _LOG.warning("a standby console was not taken", extra={"device": name, "why": error.message})
            if not error.retryable and error.code not in _MAY_SUCCEED:
                delay_s = math.inf
        finally:
            self._retry_at[name] = self._now() + delay_s

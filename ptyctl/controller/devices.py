"""The devices of the inventory for clients, and the check of one of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from ptyctl.api.devices import DeviceCheck, DeviceEntry, DevicesReply, DevicesRequest
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.audit.audit_log import AuditLog
from ptyctl.core.limits import UseCounter
from ptyctl.inventory import Inventory, InventoryDevice, console_id
from ptyctl.session.clients import current_principal

from .destinations import Sees
from .doctor import Doctor
from .settings import Settings


@dataclass(frozen=True, slots=True)
class DevicePlacement:
    """Restricts the nodes of a fleet that may connect a device.

    Attributes:
        device_id: the name of the console; None for another device.
        node_labels: those that a node needs to reach it.
        standby: whether another node connects the console when its owner is gone.
    """

    device_id: str | None
    node_labels: tuple[str, ...] = ()
    standby: bool = False


_FIELDS = ("protocol", "host", "port", "platform", "session_type", "device_id", "username")


class Devices:
    """Serves the requests about devices."""

    def __init__(
        self, settings: Settings, inventory: Inventory, audit_log: AuditLog, notify_problem: Callable[[], str | None]
    ) -> None:
        """Create the calls. `notify_problem` returns why the last run of the notify command failed, or None."""
        self._settings = settings
        self._inventory = inventory
        self._audit_log = audit_log
        self._notify_problem = notify_problem
        self._limit = settings.limits.use["max_principal_checks"]
        #: The checks in progress by the name of their principal.
        self._checks: defaultdict[str, UseCounter] = defaultdict(lambda: UseCounter(self._limit))

    async def answer(self, request: DevicesRequest, sees: Sees) -> DevicesReply:
        """Serve a request. `sees` returns whether the caller may see a device with these names.

        Raises:
            PtyctlError: LIMIT_EXCEEDED; as `Inventory.devices`.
        """
        if request.action == "doctor":
            assert request.device is not None
            return DevicesReply(checks=await self._check(request.device, request.task_id, sees))
        devices = await self._inventory.devices()
        seen = ((name, device) for name, device in devices.items() if sees(name, device.device_id))
        return DevicesReply(devices=[_entry(name, device, sees) for name, device in seen])

    async def placements(self) -> dict[str, DevicePlacement]:
        """Return the placement of each device. Raises PtyctlError as `Inventory.devices`."""
        return {name: _placement(name, device) for name, device in (await self._inventory.devices()).items()}

    def limits_in_use(self) -> dict[str, int]:
        """Return how many checks the principal with most of them has in progress, by the name of the limit."""
        return {self._limit.name: max((counter.in_use for counter in self._checks.values()), default=0)}

    async def _check(self, device: str, task_id: str | None, sees: Sees) -> list[DeviceCheck]:
        found: list[DeviceCheck] = []
        principal = current_principal().name
        with self._checks[principal].counting():
            self._audit_log.record("check", principal=principal, task=task_id, device=device)
            try:
                async with asyncio.timeout(MAX_WAIT_MS / 1000):
                    async for check in Doctor(self._settings, device, self._notify_problem(), sees).checks():
                        found.append(DeviceCheck(name=check.name, ok=check.ok, result=check.result, hint=check.hint))
            except TimeoutError:
                result = f"the next step takes longer than {MAX_WAIT_MS // 1000} s"
                found.append(DeviceCheck(name="time", ok=False, result=result))
        return found


def _placement(name: str, device: InventoryDevice) -> DevicePlacement:
    device_id = console_id(name, device)
    return DevicePlacement(device_id, device.node_labels or (), device_id is not None and bool(device.standby))


def _entry(name: str, device: InventoryDevice, sees: Sees) -> DeviceEntry:
    """Return the fields that a client needs: no credentials, nor where they are stored, nor hosts that it may not see."""
    console = device.console if device.console is not None and sees(device.console.server, None) else None
    jump = [host for host in device.jump or () if sees(host, None)]
    return DeviceEntry(
        device=name,
        **{field: getattr(device, field) for field in _FIELDS},
        console=f"line {console.port} of {console.server}" if console is not None else None,
        jump=jump or None,
        groups=list(device.groups) if device.groups else None,
    )

"""The devices of the inventory for clients, and the check of one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ptyctl.api.devices import DeviceCheck, DeviceEntry, DevicesReply, DevicesRequest
from ptyctl.api.io import MAX_WAIT_MS
from ptyctl.inventory import Inventory, InventoryDevice

from .doctor import Doctor
from .settings import Settings

_FIELDS = ("protocol", "host", "port", "platform", "session_type", "device_id", "username")


async def answer_devices(
    settings: Settings, inventory: Inventory, request: DevicesRequest, notify_problem: str | None, sees: Callable[..., bool]
) -> DevicesReply:
    """Serve a request. `sees` returns whether the caller may see a device with these names.

    Raises:
        PtyctlError: as `Inventory.devices`.
    """
    if request.action == "doctor":
        assert request.device is not None
        return DevicesReply(checks=await _check(Doctor(settings, request.device, notify_problem, sees)))
    devices = await inventory.devices()
    seen = ((name, device) for name, device in devices.items() if sees(name, device.device_id))
    return DevicesReply(devices=[_entry(name, device, sees) for name, device in seen])


async def _check(doctor: Doctor) -> list[DeviceCheck]:
    found: list[DeviceCheck] = []
    try:
        async with asyncio.timeout(MAX_WAIT_MS / 1000):
            async for check in doctor.checks():
                found.append(DeviceCheck(name=check.name, ok=check.ok, result=check.result, hint=check.hint))
    except TimeoutError:
        found.append(DeviceCheck(name="time", ok=False, result=f"the next step takes longer than {MAX_WAIT_MS // 1000} s"))
    return found


def _entry(name: str, device: InventoryDevice, sees: Callable[..., bool]) -> DeviceEntry:
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

"""`ptyctl devices`, `doctor` and `platforms`: the inventory, connection checks, and the device families."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptyctl.api.errors import PtyctlError

from .client import ask_daemon
from .errors import EXIT_FAILED, format_error, format_message, print_message
from .options import AsJson
from .output import print_json, print_table, replace_controls

if TYPE_CHECKING:
    from ptyctl.controller.devices import CheckResult
    from ptyctl.inventory import InventoryDevice
    from ptyctl.platforms import Platforms

_DEVICE_HEADS = ("device", "address", "platform", "session", "username", "password")
_PLATFORM_HEADS = ("family", "file", "verified against", "devices", "modes")


def devices(as_json: AsJson = False) -> None:
    """List the devices of the inventory. Secrets are shown as references to where they are stored."""
    from ptyctl.controller.settings import load_settings
    from ptyctl.inventory import Inventory

    listed = asyncio.run(Inventory(load_settings().devices_file).devices())
    if as_json:
        print_json([{"device": name, **_device_fields(device)} for name, device in listed.items()])
    else:
        print_table(_DEVICE_HEADS, [_device_row(*entry) for entry in listed.items()])


def doctor(
    device: Annotated[str | None, typer.Argument(help="Name of a device of the inventory.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check step by step whether a device can be opened; without a device, the state directory and the settings only.

    Exit code 1 if a step fails.
    """
    from ptyctl.controller.devices import Doctor
    from ptyctl.controller.settings import load_settings

    settings = load_settings()
    notify_problem = _notify_problem() if settings.approvals.notify_command else None

    async def examine() -> list[CheckResult]:
        checks = []
        async for check in Doctor(settings, device, notify_problem, _alarms()).checks():
            checks.append(check)
            if not as_json:
                typer.echo(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<11}  {replace_controls(_check_text(check))}")
        return checks

    checks = asyncio.run(examine())
    if as_json:
        print_json([{"step": check.name, "ok": check.ok, "told": _check_text(check)} for check in checks])
    raise typer.Exit(0 if all(check.ok for check in checks) else EXIT_FAILED)


def platforms(as_json: AsJson = False) -> None:
    """List the device families and check their files. Exit code 1 if a file has errors."""
    from ptyctl.controller.settings import load_settings
    from ptyctl.platforms import Platforms

    known = Platforms(load_settings().platforms_dir)
    faults = known.faults()
    if as_json:
        print_json([_platform_fields(name, known, faults.get(name)) for name in known.names()])
    else:
        print_table(_PLATFORM_HEADS, [_platform_row(name, known) for name in known.names() if name not in faults])
        for fault in faults.values():
            print_message(format_error(fault))
    raise typer.Exit(EXIT_FAILED if faults else 0)


def _notify_problem() -> str | None:
    """Return why the notify command of the running daemon failed when it ran last."""
    return ask_daemon("approvals", {"action": "list", "limit": 1}).get("problem")


def _alarms() -> list[str]:
    """Return the alarms of the running daemon's sessions about their files."""
    sessions = ask_daemon("session", {"action": "list"}).get("sessions") or ()
    return [entry["alarm"] for entry in sessions if entry.get("alarm")]


def _check_text(check: CheckResult) -> str:
    return format_message(check.result, check.hint)


def _device_row(name: str, device: InventoryDevice) -> tuple[str, ...]:
    fields = _device_fields(device)
    return (
        name,
        fields.get("console") or f"{fields['protocol']} {fields['host']}{f':{device.port}' if device.port else ''}",
        fields.get("platform", ""),
        fields.get("session_type", "normal"),
        fields.get("username", ""),
        fields.get("password", ""),
    )


def _device_fields(device: InventoryDevice) -> dict[str, Any]:
    """Return the fields that are set; a secret as the reference to where it is stored."""
    fields: dict[str, Any] = {}
    for name in ("protocol", "host", "port", "platform", "session_type", "device_id", "username", "jump", "groups"):
        if (value := getattr(device, name)) is not None:
            fields[name] = value
    if device.console is not None:
        fields["console"] = f"line {device.console.port} of {device.console.server}"
        fields["session_type"] = "console"
    for name in ("password", "passphrase", "enable_secret"):
        if (reference := getattr(device, name)) is not None:
            fields[name] = str(reference)
    return fields


def _platform_row(name: str, platforms: Platforms) -> tuple[str, ...]:
    platform = platforms.get(name)
    file = "yours" if platforms.is_users(name) else "built in"
    return name, file, platform.verified or "no", platform.title, " ".join(platform.modes)


def _platform_fields(name: str, platforms: Platforms, fault: PtyctlError | None) -> dict[str, Any]:
    """Return the fields of a family, or the fault of its file."""
    fields = {"family": name, "own": platforms.is_users(name)}
    if fault is not None:
        return {**fields, "fault": format_error(fault)}
    platform = platforms.get(name)
    return {**fields, "title": platform.title, "verified": platform.verified, "modes": list(platform.modes)}

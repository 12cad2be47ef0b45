"""`ptyctl devices` and `ptyctl doctor`: the inventory, and what keeps one of its devices from being reached."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import shown
from .options import AsJson

if TYPE_CHECKING:
    from ptyctl.controller.doctor import Step
    from ptyctl.inventory import Device


def devices(as_json: AsJson = False) -> None:
    """List the devices of the inventory: where they are and where their secrets are kept, never the secrets."""
    from ptyctl.controller.settings import load_settings
    from ptyctl.inventory import Inventory

    listed = asyncio.run(Inventory(load_settings().devices_file).devices())
    if as_json:
        shown.as_json([{"device": name, **_fields(device)} for name, device in listed.items()])
        return
    shown.table(("device", "where", "platform", "session", "username", "password"), [_row(*entry) for entry in listed.items()])


def doctor(
    device: Annotated[str, typer.Argument(help="A name from the inventory.")],
    as_json: AsJson = False,
) -> None:
    """Connect to a device step by step, and say what is wrong and what to do. Exit code 1 if a step fails."""
    from ptyctl.controller.doctor import Doctor
    from ptyctl.controller.settings import load_settings

    async def examine() -> list[Step]:
        done = []
        async for step in Doctor(load_settings(), device).steps():
            done.append(step)
            if not as_json:
                typer.echo(f"{'ok  ' if step.ok else 'FAIL'}  {step.name:<11}  {shown.harmless(step.told)}")
        return done

    done = asyncio.run(examine())
    if as_json:
        shown.as_json([{"step": step.name, "ok": step.ok, "told": step.told} for step in done])
    raise typer.Exit(0 if all(step.ok for step in done) else 1)


def _row(name: str, device: Device) -> tuple[str, ...]:
    fields = _fields(device)
    return (
        name,
        fields.get("console") or f"{fields['protocol']} {fields['host']}{f':{device.port}' if device.port else ''}",
        fields.get("platform", ""),
        fields.get("session_type", "normal"),
        fields.get("username", ""),
        fields.get("password", ""),
    )


def _fields(device: Device) -> dict[str, Any]:
    """What is told of a device; of a secret, where it is kept."""
    told: dict[str, Any] = {}
    for name in ("protocol", "host", "port", "platform", "session_type", "device_id", "username", "jump", "groups"):
        if (value := getattr(device, name)) is not None:
            told[name] = value
    if device.console is not None:
        told["console"] = f"line {device.console.port} of {device.console.server}"
        told["session_type"] = "console"
    for name in ("password", "passphrase", "enable_secret"):
        if (reference := getattr(device, name)) is not None:
            told[name] = str(reference)
    return told

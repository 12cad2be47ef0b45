"""`ptyctl devices` and `ptyctl doctor`: the inventory, and what keeps one of its devices from being reached."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ptyctl.controller.doctor import Step
    from ptyctl.inventory import Device

EXIT_FAULTS = 1

_Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


def devices(as_json: _Json = False) -> None:
    """List the devices of the inventory: where they are and where their secrets are kept, never the secrets."""
    from ptyctl.api.errors import PtyctlError
    from ptyctl.controller.settings import load_settings
    from ptyctl.inventory import Inventory

    try:
        listed = asyncio.run(Inventory(load_settings().devices_file).devices())
    except PtyctlError as error:
        typer.echo(error.message, err=True)
        raise typer.Exit(EXIT_FAULTS) from None
    if as_json:
        typer.echo(json.dumps([{"device": name, **_fields(device)} for name, device in listed.items()], ensure_ascii=False))
        return
    _table(("device", "where", "platform", "session", "username", "password"), [_row(*entry) for entry in listed.items()])


def doctor(
    device: Annotated[str, typer.Argument(help="A name from the inventory.")],
    as_json: _Json = False,
) -> None:
    """Connect to a device step by step, and say what is wrong and what to do. Exit code 1 if a step fails."""
    from ptyctl.api.errors import PtyctlError
    from ptyctl.controller.doctor import Doctor
    from ptyctl.controller.settings import load_settings

    async def examine() -> list[Step]:
        done = []
        async for step in Doctor(load_settings(), device).steps():
            done.append(step)
            if not as_json:
                typer.echo(f"{'ok  ' if step.ok else 'FAIL'}  {step.name:<11}  {step.told}")
        return done

    try:
        done = asyncio.run(examine())
    except PtyctlError as error:
        typer.echo(error.message, err=True)
        raise typer.Exit(EXIT_FAULTS) from None
    if as_json:
        typer.echo(json.dumps([{"step": step.name, "ok": step.ok, "told": step.told} for step in done], ensure_ascii=False))
    raise typer.Exit(0 if all(step.ok for step in done) else EXIT_FAULTS)


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


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*heads, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console().print(table, markup=False)

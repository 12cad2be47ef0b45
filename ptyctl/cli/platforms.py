"""`ptyctl platforms`: which device families there are, what each was run against, and what is wrong with a file."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from ptyctl.api.errors import PtyctlError
from ptyctl.controller.settings import load_settings
from ptyctl.platforms import Platforms

EXIT_FAULTS = 1


def run(*, as_json: bool = False) -> int:
    """Exit code 1, and the faults on stderr, where a file is wrong."""
    try:
        platforms = Platforms(load_settings().platforms_dir)
    except PtyctlError as error:
        typer.echo(error.message, err=True)
        return EXIT_FAULTS
    faults = platforms.faults()
    if as_json:
        typer.echo(json.dumps([_told(name, platforms, faults.get(name)) for name in platforms.names()], ensure_ascii=False))
        return EXIT_FAULTS if faults else 0
    table = Table("family", "file", "verified against", "devices", "modes", box=None, pad_edge=False)
    for name in platforms.names():
        if name not in faults:
            platform = platforms.get(name)
            file = "yours" if platforms.is_users(name) else "built in"
            table.add_row(name, file, platform.verified or "no", platform.title, " ".join(platform.modes))
    Console().print(table)
    for fault in faults.values():
        typer.echo(fault.message, err=True)
    return EXIT_FAULTS if faults else 0


def _told(name: str, platforms: Platforms, fault: PtyctlError | None) -> dict[str, Any]:
    """One family; of a file that is wrong, what is wrong."""
    own = {"family": name, "own": platforms.is_users(name)}
    if fault is not None:
        return {**own, "fault": fault.message}
    platform = platforms.get(name)
    return {**own, "title": platform.title, "verified": platform.verified, "modes": list(platform.modes)}

"""`ptyctl platforms`: which device families there are, what each was run against, and what is wrong with a file."""

from __future__ import annotations

from typing import Any

import typer

from ptyctl.api.errors import PtyctlError
from ptyctl.controller.settings import load_settings
from ptyctl.platforms import Platforms

from . import shown

_HEADS = ("family", "file", "verified against", "devices", "modes")


def run(*, as_json: bool = False) -> int:
    """Exit code 1, and the faults on stderr, where a file is wrong."""
    platforms = Platforms(load_settings().platforms_dir)
    faults = platforms.faults()
    if as_json:
        shown.as_json([_told(name, platforms, faults.get(name)) for name in platforms.names()])
    else:
        shown.table(_HEADS, [_row(name, platforms) for name in platforms.names() if name not in faults])
        for fault in faults.values():
            typer.echo(f"ptyctl: {fault.message}", err=True)
    return 1 if faults else 0


def _row(name: str, platforms: Platforms) -> tuple[str, ...]:
    platform = platforms.get(name)
    file = "yours" if platforms.is_users(name) else "built in"
    return name, file, platform.verified or "no", platform.title, " ".join(platform.modes)


def _told(name: str, platforms: Platforms, fault: PtyctlError | None) -> dict[str, Any]:
    """One family; of a file that is wrong, what is wrong."""
    own = {"family": name, "own": platforms.is_users(name)}
    if fault is not None:
        return {**own, "fault": fault.message}
    platform = platforms.get(name)
    return {**own, "title": platform.title, "verified": platform.verified, "modes": list(platform.modes)}

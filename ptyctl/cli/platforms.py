"""`ptyctl platforms`: which device families there are, what each was run against, and what is wrong with a file."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from ptyctl.api.errors import PtyctlError
from ptyctl.controller.settings import load_settings
from ptyctl.platforms import Platforms

EXIT_FAULTS = 1


def run() -> int:
    """Exit code 1, and the faults on stderr, where a file is wrong."""
    try:
        platforms = Platforms(load_settings().platforms_dir)
    except PtyctlError as error:
        typer.echo(error.message, err=True)
        return EXIT_FAULTS
    faults = platforms.faults()
    table = Table("family", "verified against", "devices", "modes", box=None, pad_edge=False)
    for name in platforms.names():
        if name not in faults:
            platform = platforms.get(name)
            table.add_row(name, platform.verified or "no", platform.title, " ".join(platform.modes))
    Console().print(table)
    for fault in faults.values():
        typer.echo(fault.message, err=True)
    return EXIT_FAULTS if faults else 0

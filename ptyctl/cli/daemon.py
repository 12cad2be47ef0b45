"""`ptyctl daemon`: the daemon itself, and what can be done with one that is up."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

app = typer.Typer(
    help="The daemon that owns this user's sessions. It starts by itself when it is needed.", no_args_is_help=False
)

_Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.callback(invoke_without_command=True)
def run(context: typer.Context) -> None:
    """Run it in this terminal; without a command, for a service manager."""
    if context.invoked_subcommand is None:
        from ptyctl.daemon.main import run as run_daemon

        raise typer.Exit(run_daemon())


@app.command()
def status(as_json: _Json = False) -> None:
    """Say whether one is up. Exit code 3 if not."""
    from ptyctl.daemon import control
    from ptyctl.daemon.place import Place

    place = Place()
    up = control.look(place)
    told = {"up": up is not None, "runtime_dir": str(place.folder), **({"pid": up.pid, "version": up.version} if up else {})}
    shown = f"up: process {up.pid}, ptyctl {up.version}, {place.socket}" if up else f"not up: {place.folder}"
    typer.echo(json.dumps(told) if as_json else shown)
    raise typer.Exit(0 if up else 3)


@app.command()
def start() -> None:
    """Start it, if it is not up."""
    from ptyctl.daemon import control
    from ptyctl.daemon.place import Place

    up = control.start(Place())
    typer.echo(f"up: process {up.pid}, ptyctl {up.version}")


@app.command()
def stop() -> None:
    """End it, and close all its sessions; what they showed can still be read."""
    from ptyctl.daemon import control
    from ptyctl.daemon.place import Place

    ended = control.stop(Place())
    typer.echo(f"ended: process {ended.pid}" if ended else "it was not up")


@app.command()
def restart() -> None:
    """Replace it, for a new version: local shells live on; SSH and Telnet sessions are lost, and consoles connect again."""
    from ptyctl.daemon import control
    from ptyctl.daemon.place import Place

    place = Place()
    ended = control.hand_over(place)
    up = control.start(place)
    print(f"ended: process {ended.pid}" if ended else "it was not up", file=sys.stderr)
    typer.echo(f"up: process {up.pid}, ptyctl {up.version}")

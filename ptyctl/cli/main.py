"""`ptyctl`: its commands and their options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ptyctl.version import __version__

from . import daemon, devices, gc, locks, looking, opening, recordings, running, sessions
from . import log as session_log
from .attach import command as attach

app = typer.Typer(
    help="A session controller for terminals: agents and people share consoles, SSH hosts and shells.",
    pretty_exceptions_enable=False,
)

app.command()(sessions.sessions)
app.add_typer(opening.app, name="open")
app.command()(attach.attach)
app.command("exec")(running.exec_)
app.command()(running.send)
app.command()(looking.tail)
app.command()(looking.screen)
app.command()(looking.blocks)
app.command()(looking.search)
app.command()(locks.lock)
app.command()(locks.unlock)
app.command()(locks.takeover)
app.command()(locks.close)
app.command()(recordings.export)
app.command()(recordings.replay)
app.command()(gc.gc)
app.add_typer(daemon.app, name="daemon")
app.command()(devices.devices)
app.command()(devices.doctor)
app.command()(session_log.log)


class Transport(StrEnum):
    """How MCP clients reach the server."""

    STDIO = "stdio"
    HTTP = "http"
    BOTH = "both"


@app.command()
def mcp(
    transport: Annotated[Transport, typer.Option(help="How clients connect.")] = Transport.STDIO,
    listen: Annotated[str, typer.Option(help="HOST:PORT on loopback, for http and both.")] = "127.0.0.1:8765",
    toolsets: Annotated[str, typer.Option(help="Which tools, with commas between; all for every one.")] = "core",
    token_file: Annotated[Path | None, typer.Option(help="A file (0600) with the bearer token; PTYCTL_TOKEN does too.")] = None,
    standalone: Annotated[bool, typer.Option("--standalone", help="All in this process: its end closes its sessions.")] = False,
) -> None:
    """Serve the tools to MCP clients: over stdin and stdout from the daemon, or from this process, also over HTTP at /mcp."""
    if transport is Transport.STDIO and not standalone:
        from ptyctl.daemon.shim import run as run_shim

        raise typer.Exit(run_shim(toolsets))
    from .serve import run

    raise typer.Exit(run(transport.value, listen, toolsets, token_file))


@app.command()
def serve(
    listen: Annotated[str, typer.Option(help="HOST:PORT on loopback.")] = "127.0.0.1:8765",
    toolsets: Annotated[str, typer.Option(help="Which tools, with commas between; all for every one.")] = "core",
    token_file: Annotated[Path | None, typer.Option(help="A file (0600) with the bearer token; PTYCTL_TOKEN does too.")] = None,
) -> None:
    """Run the daemon in this terminal, and serve its sessions to MCP clients over HTTP at /mcp too."""
    from .serve import run_with_daemon

    raise typer.Exit(run_with_daemon(listen, toolsets, token_file))


@app.command()
def demo(
    telnet: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A real device, instead of the practice switch.")
    ] = None,
    username: Annotated[str | None, typer.Option(help="Where the device asks for one.")] = None,
    password: Annotated[str | None, typer.Option(help="The login password.", envvar="PTYCTL_DEMO_PASSWORD")] = None,
    enable: Annotated[str | None, typer.Option(help="The enable password.", envvar="PTYCTL_DEMO_ENABLE")] = None,
) -> None:
    """Watch two agents share the console of a switch: a practice one, or yours."""
    from .demo import run

    raise typer.Exit(run(telnet, username, password, enable))


@app.command()
def platforms(as_json: Annotated[bool, typer.Option("--json", help="JSON, for programs.")] = False) -> None:
    """List the device families, and check their files. Exit code 1 if one is wrong."""
    from .platforms import run

    raise typer.Exit(run(as_json=as_json))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"ptyctl {__version__}")

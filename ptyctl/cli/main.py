"""`ptyctl`: its commands and their options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ptyctl.version import __version__

from . import daemon, devices, gc, locks, looking, opening, recordings, running, sessions
from . import log as session_log
from .attach import command as attach
from .failing import told


class _Commands(TyperGroup):
    """Where whoever reads our output has gone, typer would end with 1: ours is the exit code by which shells know it."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise typer.Exit(told(error)) from None


app = typer.Typer(
    cls=_Commands,
    help="A session controller for terminals: agents and people share consoles, SSH hosts and shells.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_SESSIONS, _LOOKING, _TYPING = "Sessions", "Look (needs no lock)", "Type, and who may"
_DEVICES, _SERVERS = "Devices", "Servers"

app.command(rich_help_panel=_SESSIONS)(sessions.sessions)
app.add_typer(opening.app, name="open", rich_help_panel=_SESSIONS)
app.command(rich_help_panel=_SESSIONS)(attach.attach)
app.command(rich_help_panel=_SESSIONS)(locks.close)
app.command(rich_help_panel=_SESSIONS)(gc.gc)
app.command("exec", rich_help_panel=_TYPING)(running.exec_)
app.command(rich_help_panel=_TYPING)(running.send)
app.command(rich_help_panel=_TYPING)(locks.lock)
app.command(rich_help_panel=_TYPING)(locks.unlock)
app.command(rich_help_panel=_TYPING)(locks.takeover)
app.command(rich_help_panel=_LOOKING)(looking.tail)
app.command(rich_help_panel=_LOOKING)(looking.screen)
app.command(rich_help_panel=_LOOKING)(looking.blocks)
app.command(rich_help_panel=_LOOKING)(looking.search)
app.command(rich_help_panel=_LOOKING)(session_log.log)
app.command(rich_help_panel=_LOOKING)(recordings.export)
app.command(rich_help_panel=_LOOKING)(recordings.replay)
app.command(rich_help_panel=_DEVICES)(devices.devices)
app.command(rich_help_panel=_DEVICES)(devices.doctor)
app.add_typer(daemon.app, name="daemon", rich_help_panel=_SERVERS)


class Transport(StrEnum):
    """How MCP clients reach the server."""

    STDIO = "stdio"
    HTTP = "http"
    BOTH = "both"


@app.command(rich_help_panel=_SERVERS)
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


@app.command(rich_help_panel=_SERVERS)
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
        str | None, typer.Option(metavar="HOST:PORT", help="A real device, instead of the simulated switch.")
    ] = None,
    username: Annotated[str | None, typer.Option(help="Where the device asks for one.")] = None,
    password: Annotated[str | None, typer.Option(help="The login password.", envvar="PTYCTL_DEMO_PASSWORD")] = None,
    enable: Annotated[str | None, typer.Option(help="The enable password.", envvar="PTYCTL_DEMO_ENABLE")] = None,
    switch: Annotated[bool, typer.Option("--switch", help="Only keep a simulated switch up, to try things on.")] = False,
) -> None:
    """Watch two agents share the console of a switch: a simulated one, or yours."""
    from .demo import run, serve_switch

    if switch:
        raise typer.Exit(serve_switch())
    raise typer.Exit(run(telnet, username, password, enable))


@app.command(rich_help_panel=_DEVICES)
def platforms(as_json: Annotated[bool, typer.Option("--json", help="JSON, for programs.")] = False) -> None:
    """List the device families, and check their files. Exit code 1 if one is wrong."""
    from .platforms import run

    raise typer.Exit(run(as_json=as_json))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"ptyctl {__version__}")

"""`ptyctl daemon`, `mcp`, `serve` and `web`: run and control the daemon, serve MCP clients, open the web console."""

from __future__ import annotations

import html
import os
import sys
import webbrowser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ptyctl.daemon import control
from ptyctl.daemon.control import WEB, WEB_LISTEN, BlockingClient
from ptyctl.daemon.runtime_dir import RuntimeDir

from . import mcp_server
from .errors import EXIT_NOT_FOUND, print_message
from .mcp_server import DEFAULT_LISTEN, McpTransport
from .options import AsJson
from .output import print_json

if TYPE_CHECKING:
    from ptyctl.daemon.main import JoinFleet

app = typer.Typer(no_args_is_help=False)

_Listen = Annotated[str, typer.Option(help="HOST:PORT of the HTTP server, on loopback.")]
_Toolsets = Annotated[str, typer.Option(help="Names of toolsets, separated by commas, or all.")]
_TokenFile = Annotated[
    Path | None, typer.Option(help="File with the bearer token, mode 0600. Default: PTYCTL_TOKEN, or a new token.")
]

_FullText = Annotated[
    bool | None,
    typer.Option("--full-text/--short-text", help="Whether large results are sent as text too. Default: as the client needs."),
]


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    stdio_handshake: Annotated[
        bool, typer.Option("--stdio-handshake", help="Serve the terminals to the program that has started this one.")
    ] = False,
) -> None:
    """Run the daemon that owns this user's sessions in the foreground, or control the running one.

    Commands that need the daemon start it.
    """
    if stdio_handshake:
        from ptyctl.daemon.stdio_runtime import run as run_stdio

        raise typer.Exit(run_stdio())
    if context.invoked_subcommand is None:
        from ptyctl.daemon.main import run as run_daemon

        raise typer.Exit(run_daemon())


@app.command()
def status(as_json: AsJson = False) -> None:
    """Print whether the daemon is running. Exit code 3 if it is not."""
    runtime_dir = RuntimeDir()
    up = control.find_daemon(runtime_dir)
    if as_json:
        process = up._asdict() if up else {}
        print_json({"up": up is not None, "runtime_dir": str(runtime_dir.path), **process})
    else:
        typer.echo(f"{_running(up)}, {runtime_dir.socket}" if up else f"not up: {runtime_dir.path}")
        if up and up.rejection:
            typer.echo(f"serves no further client: {up.rejection}")
        if up and up.loop_stalls:
            longest = f"the longest for {up.longest_stall_ms} ms"
            typer.echo(f"blocked {up.loop_stalls} times for more than 100 ms, {longest}; see {runtime_dir.log}")
        for use in up.limits if up else ():
            typer.echo(f"{use['name']:<24}{use['in_use']:>6} of {use['limit']}")
    raise typer.Exit(0 if up else EXIT_NOT_FOUND)


@app.command()
def start() -> None:
    """Start the daemon if it is not running."""
    typer.echo(_running(control.start(RuntimeDir())))


@app.command()
def stop() -> None:
    """Stop the daemon and close all its sessions. Their history stays on disk."""
    typer.echo(_ended(control.stop(RuntimeDir())))


@app.command()
def restart() -> None:
    """Replace the daemon, for example by a new version.

    Local programs keep running and consoles reconnect; other SSH and Telnet sessions are lost.
    """
    runtime_dir = RuntimeDir()
    print(_ended(control.hand_over(runtime_dir)), file=sys.stderr)
    typer.echo(_running(control.start(runtime_dir)))


def mcp(
    transport: Annotated[McpTransport, typer.Option(help="How clients connect.")] = McpTransport.STDIO,
    listen: _Listen = DEFAULT_LISTEN,
    toolsets: _Toolsets = "core",
    token_file: _TokenFile = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="Keep the sessions in this process, without the daemon; they end with it.")
    ] = False,
    full_text: _FullText = None,
) -> None:
    """Serve the tools to MCP clients over stdin and stdout, or over HTTP at /mcp.

    The sessions are those of the daemon, which all clients share. With --standalone they are in this process and end with it.
    """
    if transport is McpTransport.STDIO and not standalone:
        from ptyctl.daemon.shim import run as run_shim

        raise typer.Exit(run_shim(toolsets, full_text=full_text))
    raise typer.Exit(mcp_server.run(transport, listen, toolsets, token_file, standalone=standalone, full_text=full_text))


def serve(
    listen: Annotated[
        str | None,
        typer.Option(help=f"HOST:PORT of the HTTP server, on loopback unless it is encrypted. Default: {DEFAULT_LISTEN}."),
    ] = None,
    toolsets: _Toolsets = "core",
    token_file: _TokenFile = None,
    full_text: _FullText = None,
    tls_cert: Annotated[Path | None, typer.Option(help="File with the certificate and its chain, for HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="File with the certificate's key.")] = None,
    trusted_proxy: Annotated[
        list[str] | None, typer.Option(help="Address or network of a reverse proxy that provides HTTPS. Repeatable.")
    ] = None,
    public_origin: Annotated[
        str | None, typer.Option(help="Address of the server in browsers, such as https://console.example.")
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="Serve the users of [access] in the configuration; HTTP only with --listen.")
    ] = False,
    fleet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Join a fleet as the node of this file, of ptyctl fleet init.")
    ] = None,
) -> None:
    """Run the daemon in the foreground, and serve its sessions over HTTP: to MCP clients at /mcp, and in the web console.

    Clients on other machines need --public-origin, and --tls-cert with --tls-key or --trusted-proxy.
    """
    from ptyctl.http.access import parse_exposure

    if system and listen is None:
        from ptyctl.daemon.main import run as run_daemon

        raise typer.Exit(run_daemon(system=True, fleet=_join(fleet)))
    listen = listen or DEFAULT_LISTEN
    exposure = partial(parse_exposure, tls_cert, tls_key, trusted_proxy or (), public_origin)
    joined = _join(fleet)
    code = mcp_server.run_with_daemon(
        listen, toolsets, token_file, exposure=exposure, full_text=full_text, system=system, fleet=joined
    )
    raise typer.Exit(code)


def _join(file: Path | None) -> JoinFleet | None:
    """Return the membership of a node's file; without a file, nothing of the fleet is imported. Raises PtyctlError."""
    if file is None:
        return None
    from .fleet_commands import read_credentials

    credentials = read_credentials(file)
    if credentials.role != "node":
        from ptyctl.api.errors import invalid

        raise invalid(f"{file} is the administrator's file", hint="start a node with its own file")
    from ptyctl.fleet.node import Membership

    return Membership(credentials)


def _running(up: control.DaemonStatus) -> str:
    return f"up: process {up.pid}, ptyctl {up.version}"


def _ended(daemon: control.DaemonStatus | None) -> str:
    return f"stopped: process {daemon.pid}" if daemon else "the daemon was not up"


#: Variables that show that a browser can open a window, or which one to use.
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
_REDIRECT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={url}"><title>ptyctl</title>\n'


def web(
    listen: Annotated[str | None, typer.Option(help=f"HOST:PORT of the console, on loopback. Default: {WEB_LISTEN}.")] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser, or print the address.")] = True,
    as_json: AsJson = False,
) -> None:
    """Open the web console: see all terminals, decide about approvals, take over. Starts the daemon if it is not running.

    The address logs in once, within a minute.
    """
    runtime_dir = RuntimeDir()
    with BlockingClient(runtime_dir) as daemon:
        reply = daemon.call(WEB, {} if listen is None else {"listen": listen})
    url = f"{reply['url']}/#ticket={reply['ticket']}"
    if as_json:
        print_json({"url": url})
        return
    if listen is not None and not reply["opened"]:
        print_message(f"the console listens at {reply['url']} already; to change that: ptyctl daemon restart")
    if open_browser and any(os.environ.get(name) for name in _DISPLAYS) and _open(url, runtime_dir):
        print_message("opened in a browser; if you do not see it, open this address:")
    typer.echo(url)


def _open(url: str, runtime_dir: RuntimeDir) -> bool:
    """Open a browser. Returns whether there is one.

    It gets a file that only the user can read: other users of the machine see a program's arguments, but not the ticket.
    """
    if runtime_dir.is_system:
        return False
    page = runtime_dir.path / "web.html"
    page.unlink(missing_ok=True)
    page.touch(0o600)
    page.write_text(_REDIRECT.format(url=html.escape(url)))
    return webbrowser.open(page.as_uri())

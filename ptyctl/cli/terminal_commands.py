"""`ptyctl bridge` and `ptyctl terminal preflight`: the runtimes of the terminal contract (docs/containers.md)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ptyctl.terminal.errors import TerminalErrorCode
from ptyctl.terminal.runtime_mode import ADAPTER_NAMES, DEFAULT_PORT, TOKEN, TOKEN_FILE, read_token

from .errors import EXIT_NO_CONNECTION, EXIT_USAGE, print_message
from .options import AsJson
from .output import print_json

if TYPE_CHECKING:
    from ptyctl.daemon.runtime_dir import RuntimeDir

app = typer.Typer(help="Check the runtimes of the interactive terminal contract.", no_args_is_help=True)


@app.callback()
def terminal() -> None:
    """Check the runtimes of the interactive terminal contract."""


@app.command()
def preflight(
    adapter: Annotated[str | None, typer.Option(help=f"The adapter to check: {', '.join(ADAPTER_NAMES)}.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that the terminals can be reached. Runs no command; a bridge may start its daemon. Exit code 6 if not."""
    from .terminal_preflight import check

    result = asyncio.run(check(adapter, os.environ))
    if as_json:
        print_json(result)
    else:
        for line in result["checks"]:
            typer.echo(f"{'ok' if line['ok'] else 'failed':<8}{line['check']}: {line['message']}")
        typer.echo(f"{result['adapter']}: {'ready' if result['ready'] else 'not ready'}")
    if not result["ready"]:
        invalid = result["error"]["code"] in (TerminalErrorCode.INVALID_MODE, TerminalErrorCode.INVALID_PAYLOAD)
        raise typer.Exit(EXIT_USAGE if invalid else EXIT_NO_CONNECTION)


def bridge(
    listen: Annotated[
        str, typer.Option(help="ADDRESS:PORT; the address of this machine that containers use.")
    ] = f"127.0.0.1:{DEFAULT_PORT}",
    all_addresses: Annotated[bool, typer.Option("--all-addresses", help="Allow 0.0.0.0 and [::].")] = False,
) -> None:
    """Serve this user's terminals to containers on this machine, over TCP, until Ctrl-C.

    The token is that of PM_INTERACTIVE_TERMINAL_TOKEN_FILE or PM_INTERACTIVE_TERMINAL_TOKEN. Without one, the bridge does not
    start.
    """
    from ptyctl.daemon.bridge import ListenError, bridge_principal, open_listener
    from ptyctl.daemon.runtime_dir import SYSTEM_USER, RuntimeDir
    from ptyctl.http.access import Address
    from ptyctl.stderr_log import log_to_stderr
    from transports.process import forbid_dumps, forget_variables

    token = _bridge_token()
    if os.environ.get(SYSTEM_USER):
        raise _refusal(f"a bridge serves the daemon of its own user; unset {SYSTEM_USER}")
    try:
        listener = open_listener(listen, all_addresses=all_addresses)
    except ListenError as error:
        raise _refusal(str(error)) from None
    runtime_dir = RuntimeDir()
    forget_variables([TOKEN])  # the daemon and its sessions would inherit it
    forbid_dumps()
    log_to_stderr()
    where = Address(*listener.getsockname()[:2])
    print_message(f"serving terminals at {where} as {bridge_principal(token).name}")
    _serve_bridge(listener, token, runtime_dir)


def _bridge_token() -> str:
    """Return the token of the environment. Raises typer.Exit if there is none, or other users can read its file."""
    try:
        token = read_token(os.environ)
    except ValueError as error:
        raise _refusal(f"the token {error}") from None
    if (file := os.environ.get(TOKEN_FILE)) and Path(file).stat().st_mode & 0o077:
        raise _refusal(f"{TOKEN_FILE}: other users can read it; run: chmod 600 {file}")
    if not token:
        raise _refusal(f"there is no token; write one to a file with mode 0600 and set {TOKEN_FILE}")
    return token


def _serve_bridge(listener: socket.socket, token: str, runtime_dir: RuntimeDir) -> None:
    """Serve until SIGINT or SIGTERM; close the listener."""
    from ptyctl.audit.audit_files import AuditFiles
    from ptyctl.audit.audit_log import AuditLog
    from ptyctl.controller.settings import load_settings
    from ptyctl.daemon.bridge import run_bridge

    async def serve() -> None:
        task = asyncio.ensure_future(run_bridge(listener, token, runtime_dir, audit_log.record))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await task

    audit_log = AuditLog(AuditFiles(load_settings().state_dir / "audit"))
    try:
        asyncio.run(serve())
    finally:
        listener.close()
        audit_log.close()


def _refusal(message: str) -> typer.Exit:
    print_message(message)
    return typer.Exit(EXIT_USAGE)

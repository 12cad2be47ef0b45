"""`ptyctl sessions`, `open`, `attach`, `close` and `gc`: list, open, attach to, close and remove sessions."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ptyctl.api.controller import Controller
from ptyctl.api.handle import until_open
from ptyctl.api.operator import GcRequest

from .client import call_daemon, session_action, without_none
from .errors import print_message, session_named
from .frequent_commands import close_session
from .names import resolve_task
from .options import AsJson, SessionName, Task
from .output import format_age, format_size, print_json, progress
from .session_list import print_sessions

_REASONS = {"age": "too old", "size": "size limit"}
open_app = typer.Typer(help="Open a session and print its id.")

_ADDRESS = re.compile(
    r"(?:(?P<user>[^@]+)@)?(?:\[(?P<v6>[^\]@]+)\](?::(?P<v6_port>\d+))?|(?P<bare_v6>[0-9a-fA-F:.]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)"
    r"|(?P<host>[^:@\[\]]+)(?::(?P<port>\d+))?)"
)
#: Columns and rows if stdout is not a terminal.
_DEFAULT_SIZE = 120, 40

_Cols = Annotated[int | None, typer.Option(min=1, max=65535, help="Columns; default: those of this terminal, or 120.")]
_Rows = Annotated[int | None, typer.Option(min=1, max=65535, help="Rows; default: those of this terminal, or 40.")]
_Term = Annotated[str, typer.Option(help="Terminal type, TERM.")]
_Console = Annotated[
    str | None,
    typer.Option(
        "--console", metavar="NAME", help="Open as the shared console NAME, which only the lock holder can type into."
    ),
]
_Platform = Annotated[str | None, typer.Option(help="Device family; see: ptyctl platforms.")]
_Node = Annotated[str | None, typer.Option("--node", metavar="NAME", help="In a fleet: the node that opens it.")]
_Attach = Annotated[bool, typer.Option("--attach", help="Attach with the lock.")]
_Lock = Annotated[bool, typer.Option("--lock", help="Take the lock.")]
_Timeout = Annotated[
    float, typer.Option("--connect-timeout", metavar="SECONDS", min=0.001, max=86_400, help="Timeout of the connection.")
]
_Command = Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Run this instead of the login shell.")]


def sessions(
    include_ended: Annotated[bool, typer.Option("--all", "-a", help="Also list ended sessions on disk.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the open sessions and their size on disk.

    Starts a daemon only if the last one was killed.
    """
    print_sessions(include_ended=include_ended, as_json=as_json)


def attach(
    name: SessionName,
    write: Annotated[bool, typer.Option("--write", "-w", help="Take the lock and type.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait in the queue for the lock, and watch meanwhile.")] = False,
    force: Annotated[
        str | None, typer.Option(metavar="REASON", help="Take the lock from its holder, who receives the reason.")
    ] = None,
    ttl: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.1, max=86_400, help="Lifetime of the lock if this process is killed."),
    ] = 30,
    status: Annotated[bool, typer.Option(" /--no-status", show_default=False, help="Do not show the status row.")] = True,
    task: Task = None,
) -> None:
    """Watch a session in this terminal, or type into it with --write.

    At the beginning of a line, ~. detaches and ~? shows the other escapes.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.BadParameter("attach needs a terminal; without one use: ptyctl tail -f")
    if os.environ.get("TERM") == "dumb":
        raise typer.BadParameter("attach cannot draw a screen on this terminal (TERM=dumb); use: ptyctl tail -f")
    from .attach import client

    options = client.AttachOptions(name, task, ttl, write or wait or force is not None, wait, force, status)
    with session_named(name):
        print_message(asyncio.run(client.attach(options)))


def close(
    name: SessionName,
    force: Annotated[
        bool,
        typer.Option("--force", help="Close even if another task holds the lock, and end programs without a grace period."),
    ] = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Close a session. Its history stays on disk."""
    close_session(name, force=force, task=task, as_json=as_json)


def gc(
    max_age_days: Annotated[
        float | None,
        typer.Option(metavar="DAYS", min=0, help="Remove older ones; 0: no limit. Default: PTYCTL_GC_MAX_AGE_DAYS."),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES", min=0, help="Remove the oldest above this total; 0: no limit. Default: PTYCTL_GC_MAX_BYTES."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only show what would be removed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove old transcripts by age and total size. Those of open sessions are kept."""
    request = GcRequest.of({"dry_run": dry_run, **without_none({"max_age_days": max_age_days, "max_bytes": max_bytes})})
    reply = call_daemon(lambda controller: controller.gc(request)).payload()
    if as_json:
        print_json(reply)
        return
    for entry in reply["removed"]:
        reason = _REASONS[entry["why"]]
        used = format_age(entry["last_used_at"])
        typer.echo(f"{entry['session_id']}  {format_size(entry['bytes'])}, used {used} ago: {reason}")
    done = "would be removed" if dry_run else "removed"
    kept = f"{reply['kept']} kept, {format_size(reply['kept_bytes'])}"
    typer.echo(f"{len(reply['removed'])} {done}, {format_size(reply['removed_bytes'])}; {kept}")


@open_app.command("local")
def open_local(
    command: _Command = None,
    cwd: Annotated[Path | None, typer.Option(help="Working directory; default: the current one.")] = None,
    cols: _Cols = None,
    rows: _Rows = None,
    term: _Term = "xterm-256color",
    console: _Console = None,
    platform: _Platform = None,
    node: _Node = None,
    lock: _Lock = False,
    attach: _Attach = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Open a shell or another program on this machine."""
    target = {"protocol": "local", "cwd": str(cwd.absolute()) if cwd else None, "command": command or None}
    _open({**target, **_session_fields(cols, rows, term, console, platform), "node": node}, lock, attach, task, as_json)


@open_app.command("ssh")
def open_ssh(
    address: Annotated[str, typer.Argument(metavar="[USER@]HOST[:PORT]")],
    command: _Command = None,
    identity: Annotated[Path | None, typer.Option("--identity", "-i", help="Private key file.")] = None,
    password: Annotated[bool, typer.Option("--password", help="Prompt for a password.")] = False,
    jump: Annotated[
        str | None, typer.Option("--jump", "-J", metavar="[USER@]HOST[:PORT]", help="Jump hosts, separated by commas.")
    ] = None,
    accept_new: Annotated[bool, typer.Option("--accept-new", help="Accept and store the key of an unknown host.")] = False,
    fingerprint: Annotated[str | None, typer.Option(metavar="SHA256:...", help="Accept only this host key.")] = None,
    legacy: Annotated[bool, typer.Option("--legacy", help="Allow algorithms of old devices.")] = False,
    cols: _Cols = None,
    rows: _Rows = None,
    term: _Term = "xterm-256color",
    console: _Console = None,
    platform: _Platform = None,
    node: _Node = None,
    connect_timeout: _Timeout = 15,
    lock: _Lock = False,
    attach: _Attach = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Open a host or device over SSH, with the agent, keys and ~/.ssh/config of the user."""
    auth: dict[str, Any] = {"private_key_path": str(identity.absolute())} if identity else {}
    if password:
        auth["password"] = typer.prompt("Password", hide_input=True, err=True)
    options = {
        "host_key_policy": "accept_new" if accept_new else None,
        "host_key_fingerprint": fingerprint,
        "jump": jump,
        "legacy_algorithms": legacy or None,
    }
    target = {
        "protocol": "ssh",
        **parse_address(address),
        **_timeouts(connect_timeout),
        "command": command or None,
        "auth": auth or None,
        "ssh_options": without_none(options) or None,
    }
    _open({**target, **_session_fields(cols, rows, term, console, platform), "node": node}, lock, attach, task, as_json)


@open_app.command("telnet")
def open_telnet(
    address: Annotated[str, typer.Argument(metavar="HOST[:PORT]")],
    cols: _Cols = None,
    rows: _Rows = None,
    term: _Term = "xterm-256color",
    console: _Console = None,
    platform: _Platform = None,
    node: _Node = None,
    connect_timeout: _Timeout = 15,
    lock: _Lock = False,
    attach: _Attach = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Open a host, device or console port over Telnet."""
    target = {"protocol": "telnet", **parse_address(address), **_timeouts(connect_timeout)}
    _open({**target, **_session_fields(cols, rows, term, console, platform), "node": node}, lock, attach, task, as_json)


@open_app.command("device")
def open_device(
    name: Annotated[str, typer.Argument(help="Name in devices.toml.")],
    node: _Node = None,
    lock: _Lock = False,
    attach: _Attach = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """Open a device of the inventory."""
    _open({"device": name, "node": node}, lock, attach, task, as_json)


def parse_address(address: str) -> dict[str, Any]:
    """Return `host`, `port` and `username` of an address as far as it has them.

    Raises:
        typer.BadParameter: the address is malformed.
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise typer.BadParameter(f"{address} is not [USER@]HOST[:PORT]; write an IPv6 address with a port in brackets")
    port = parts["port"] or parts["v6_port"]
    host = parts["host"] or parts["v6"] or parts["bare_v6"]
    return without_none({"host": host, "port": int(port) if port else None, "username": parts["user"]})


def _open(fields: dict[str, Any], lock: bool, then_attach: bool, task: str | None, as_json: bool) -> None:
    task_id = resolve_task(task)

    async def open_session(controller: Controller) -> dict[str, Any]:
        reply = await session_action(controller, "open", **fields, task_id=task_id, acquire_lock=lock or None)
        reply = await until_open(controller, reply)
        if lock and not reply.lock_acquired:  # the console was open already
            await session_action(controller, "lock", session_id=reply.session_id, task_id=task_id)
        return reply.payload()

    with progress("connecting"):
        reply = call_daemon(open_session)
    for notice in (reply.get("security_warning"), *reply.get("notices", [])):
        if notice:
            print_message(notice)
    if as_json:
        print_json(reply)
    else:
        typer.echo(reply["session_id"])
    if then_attach:
        attach(reply["session_id"], write=True, task=task)


def _session_fields(cols: int | None, rows: int | None, term: str, console: str | None, platform: str | None) -> dict[str, Any]:
    default_cols, default_rows = _terminal_size()
    pty = {"cols": cols or default_cols, "rows": rows or default_rows, "term": term}
    return {"pty": pty, "device_id": console, "session_type": "console" if console else None, "platform": platform}


def _terminal_size() -> tuple[int, int]:
    """Return the size of this terminal without the status row of `attach`."""
    if not sys.stdout.isatty():
        return _DEFAULT_SIZE
    size = os.get_terminal_size(sys.stdout.fileno())
    return max(size.columns, 1), max(size.lines - 1, 1)


def _timeouts(connect_timeout_s: float) -> dict[str, Any]:
    return {"timeouts": {"connect_timeout_ms": round(connect_timeout_s * 1000)}}

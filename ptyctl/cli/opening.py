"""`ptyctl open`: a local program, SSH, Telnet, or a device of the inventory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import shown
from .options import AsJson, Task

if TYPE_CHECKING:
    from ptyctl.api.controller import Controller

app = typer.Typer(help="Open a session, and print its id.")

_ADDRESS = re.compile(
    r"(?:(?P<user>[^@]+)@)?(?:\[(?P<v6>[^\]@]+)\](?::(?P<v6_port>\d+))?|(?P<bare_v6>[0-9a-fA-F:.]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)"
    r"|(?P<host>[^:@\[\]]+)(?::(?P<port>\d+))?)"
)

_Cols = Annotated[int | None, typer.Option(min=1, max=65535, help="Columns; this terminal's, or 120.")]
_Rows = Annotated[int | None, typer.Option(min=1, max=65535, help="Rows; this terminal's, or 40.")]
_Term = Annotated[str, typer.Option(help="The terminal's kind, TERM.")]
_Console = Annotated[
    str | None,
    typer.Option("--console", metavar="NAME", help="It is the one console of this name: shared, no unlocked typing."),
]
_Platform = Annotated[str | None, typer.Option(help="The device family; see: ptyctl platforms.")]
_Attach = Annotated[bool, typer.Option("--attach", help="Attach to it at once, to type.")]
_Lock = Annotated[bool, typer.Option("--lock", help="Take its lock.")]
_Timeout = Annotated[float, typer.Option("--connect-timeout", metavar="SECONDS", min=0.001, max=86_400)]
_Command = Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Instead of the login shell.")]


@app.command()
def local(
    command: _Command = None,
    cwd: Annotated[Path | None, typer.Option(help="Where it begins; here, unless given.")] = None,
    cols: _Cols = None,
    rows: _Rows = None,
    term: _Term = "xterm-256color",
    console: _Console = None,
    platform: _Platform = None,
    lock: _Lock = False,
    attach: _Attach = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """A shell, or any program, on this machine."""
    own = {"protocol": "local", "cwd": str(cwd.absolute()) if cwd else None, "command": command or None}
    _open({**own, **_session(cols, rows, term, console, platform)}, lock, attach, task, as_json)


@app.command()
def ssh(
    address: Annotated[str, typer.Argument(metavar="[USER@]HOST[:PORT]")],
    command: _Command = None,
    identity: Annotated[Path | None, typer.Option("--identity", "-i", help="A private key's file.")] = None,
    password: Annotated[bool, typer.Option("--password", help="Ask for one.")] = False,
    jump: Annotated[
        str | None, typer.Option("--jump", "-J", metavar="[USER@]HOST[:PORT]", help="By way of these, with commas.")
    ] = None,
    accept_new: Annotated[bool, typer.Option("--accept-new", help="Trust an unknown host's key.")] = False,
    fingerprint: Annotated[str | None, typer.Option(metavar="SHA256:...", help="The only host key to accept.")] = None,
    legacy: Annotated[bool, typer.Option("--legacy", help="Also algorithms that old devices need.")] = False,
    cols: _Cols = None,
    rows: _Rows = None,
    term: _Term = "xterm-256color",
    console: _Console = None,
    platform: _Platform = None,
    connect_timeout: _Timeout = 15,
    lock: _Lock = False,
    attach: _Attach = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """A host or a device over SSH; agent, keys and ~/.ssh/config are used as ssh uses them."""
    auth: dict[str, Any] = {"private_key_path": str(identity.absolute())} if identity else {}
    if password:
        auth["password"] = typer.prompt("Password", hide_input=True, err=True)
    options = {
        "host_key_policy": "accept_new" if accept_new else None,
        "host_key_fingerprint": fingerprint,
        "jump": jump,
        "legacy_algorithms": legacy or None,
    }
    own = {"protocol": "ssh", "command": command or None, "auth": auth or None, "ssh_options": _given(options) or None}
    where = {**address_fields(address), **_timeout(connect_timeout)}
    _open({**own, **where, **_session(cols, rows, term, console, platform)}, lock, attach, task, as_json)


@app.command()
def telnet(
    address: Annotated[str, typer.Argument(metavar="HOST[:PORT]")],
    cols: _Cols = None,
    rows: _Rows = None,
    term: _Term = "xterm-256color",
    console: _Console = None,
    platform: _Platform = None,
    connect_timeout: _Timeout = 15,
    lock: _Lock = False,
    attach: _Attach = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """A console over Telnet."""
    where = {"protocol": "telnet", **address_fields(address), **_timeout(connect_timeout)}
    _open({**where, **_session(cols, rows, term, console, platform)}, lock, attach, task, as_json)


@app.command()
def device(
    name: Annotated[str, typer.Argument(help="As in devices.toml.")],
    lock: _Lock = False,
    attach: _Attach = False,
    task: Task = None,
    as_json: AsJson = False,
) -> None:
    """A device of the inventory."""
    _open({"device": name}, lock, attach, task, as_json)


def _open(fields: dict[str, Any], lock: bool, attach: bool, task: str | None, as_json: bool) -> None:
    from .calling import call, session, task_name

    who = {"task_id": task_name(task), "acquire_lock": True if lock else None}

    async def opened(controller: Controller) -> dict[str, Any]:
        reply = await session(controller, "open", **fields, **who)
        if lock and not reply.lock_acquired:  # a console that was open already
            await session(controller, "lock", session_id=reply.session_id, task_id=who["task_id"])
        return reply.payload()

    with shown.progress("connecting"):
        reply = call(opened)
    for told in (reply.get("security_warning"), *reply.get("notices", [])):
        if told:
            typer.echo(f"ptyctl: {shown.harmless(told)}", err=True)
    if as_json:
        shown.as_json(reply)
    else:
        typer.echo(reply["session_id"])
    if attach:
        from .attach.command import begin
        from .attach.wishes import Wishes

        begin(Wishes(reply["session_id"], task, write=True))


def _session(cols: int | None, rows: int | None, term: str, console: str | None, platform: str | None) -> dict[str, Any]:
    here_cols, here_rows = _size()
    pty = {"cols": cols or here_cols, "rows": rows or here_rows, "term": term}
    return {"pty": pty, "device_id": console, "session_type": "console" if console else None, "platform": platform}


def _size() -> tuple[int, int]:
    """This terminal's, less the row of `attach` for the status."""
    import os
    import sys

    if not sys.stdout.isatty():
        return 120, 40
    size = os.get_terminal_size(sys.stdout.fileno())
    return max(size.columns, 1), max(size.lines - 1, 1)


def address_fields(address: str) -> dict[str, Any]:
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise typer.BadParameter(f"{address} is no [USER@]HOST[:PORT]; an IPv6 address with a port stands in brackets")
    port = parts["port"] or parts["v6_port"]
    host = parts["host"] or parts["v6"] or parts["bare_v6"]
    return _given({"host": host, "port": int(port) if port else None, "username": parts["user"]})


def _timeout(seconds: float) -> dict[str, Any]:
    return {"timeouts": {"connect_timeout_ms": round(seconds * 1000)}}


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}

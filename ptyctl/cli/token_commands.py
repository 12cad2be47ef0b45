"""`ptyctl token`: create, list and revoke the tokens of HTTP clients."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ptyctl.api.errors import invalid
from ptyctl.core.principal import Kind, Principal, Role

from .errors import print_message
from .options import AsJson, parse_duration
from .output import print_json, print_table

if TYPE_CHECKING:
    from ptyctl.controller.tokens import TokenFile

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke tokens of HTTP clients.")

_HEADS = ("token", "kind", "role", "devices", "created", "expires")
_MAX_DAYS = 36_500

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token and of its principal.")]


@app.command()
def create(
    name: _Name,
    role: Annotated[Role, typer.Option(help="What its clients may do.")] = Role.OPERATOR,
    kind: Annotated[Kind, typer.Option(help="Who uses it.")] = Kind.AGENT,
    devices: Annotated[
        str, typer.Option(metavar="GLOBS", help="Only these devices, separated by commas. Default: all, and local shells.")
    ] = "",
    expires: Annotated[str, typer.Option(metavar="TIME", help="Lifetime, such as 90m, 12h or 30d, or never.")] = "30d",
) -> None:
    """Create a token and print it. It is not shown again."""
    globs = tuple(glob.strip() for glob in devices.split(",")) if devices else ()
    if "" in globs:
        raise invalid("--devices contains an empty name", hint="separate the names by commas: 'sw-*,core-1'")
    expires_at = _expiry(expires)
    typer.echo(_file().create(Principal(name, kind, role, globs), expires_at))
    _record("token_created", token=name, kind=kind, role=role, devices=list(globs), expires_at=expires_at)
    scope = f"the devices {', '.join(globs)}" if globs else "all devices and local shells"
    print_message(f"token {name}: {kind} with the role {role} for {scope}; the token above is shown only now")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the tokens, expired ones included."""
    tokens = _file().load()
    if as_json:
        print_json(
            [
                {**asdict(token.principal), "created_at": token.created_at, "expires_at": token.expires_at}
                for token in tokens.values()
            ]
        )
        return
    now = time.time()
    print_table(
        _HEADS,
        [
            (
                name,
                token.principal.kind,
                token.principal.role,
                ", ".join(token.principal.devices) or "all",
                _format_day(token.created_at),
                "never" if token.expires_at is None else _format_day(token.expires_at) if token.is_valid(now) else "expired",
            )
            for name, token in tokens.items()
        ],
    )


@app.command()
def revoke(name: _Name) -> None:
    """Revoke a token. Servers reject it from the next request on."""
    _file().revoke(name)
    _record("token_revoked", token=name)
    typer.echo(f"revoked: {name}")


def _file() -> TokenFile:
    from ptyctl.controller.settings import load_settings
    from ptyctl.controller.tokens import TokenFile

    return TokenFile(load_settings().sessions_dir().parent)


def _record(event: str, **fields: object) -> None:
    """Add a row to the audit log."""
    from ptyctl.audit.audit_files import AuditFiles
    from ptyctl.audit.audit_log import AuditLog
    from ptyctl.controller.settings import load_settings
    from ptyctl.session.clients import user

    log = AuditLog(AuditFiles(load_settings().state_dir / "audit"))
    log.record(event, principal=user().name, **fields)
    log.close()
    if log.failure is not None:
        print_message(f"the audit log could not be written: {log.failure}")


def _expiry(text: str) -> int | None:
    """Return the expiry of a new token (epoch seconds), or None for no expiry. Raises INVALID_ARGUMENT."""
    if text == "never":
        return None
    seconds = parse_duration(text) or 0
    if not 0 < seconds <= _MAX_DAYS * 86400:
        raise invalid(
            f"--expires {text} is no lifetime", hint="give a number of minutes, hours or days: 90m, 12h, 30d; or never"
        )
    return int(time.time()) + seconds


def _format_day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))

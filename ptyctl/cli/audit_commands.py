"""`ptyctl audit`: who did what, and whether the record is complete."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ptyctl.api.operator import AuditReply, AuditRequest
from ptyctl.core.sanitizer import escape_controls

from .client import call_daemon, without_none
from .errors import EXIT_NO_CONNECTION, print_message
from .options import AsJson, duration_s
from .output import print_json, print_table, replace_controls

app = typer.Typer(help="Show who did what, or verify the record.", invoke_without_command=True, no_args_is_help=False)

#: Fields of a row that have a column; the last column lists the others.
_COLUMNS = ("ts", "event", "principal", "task", "device", "session_id")


@app.callback()
def audit(
    context: typer.Context,
    since: Annotated[str | None, typer.Option(metavar="AGE", help="Rows of this time up to now: 30m, 12h, 7d.")] = None,
    device: Annotated[str | None, typer.Option(metavar="GLOB", help="Rows about these devices.")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Rows about this session.")] = None,
    principal: Annotated[str | None, typer.Option(metavar="NAME", help="Rows about what this principal did.")] = None,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Rows about what this task did.")] = None,
    event: Annotated[str | None, typer.Option(metavar="EVENT", help="Rows of one kind, for example text.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The newest of these rows.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Show who did what: connections, opens and closes, locks, and each text that was typed.

    Exit code 6 if the rows of other nodes of a fleet are missing.
    """
    if context.invoked_subcommand is not None:
        return
    fields = {
        "since": None if since is None else int((time.time() - duration_s(since, "12h")) * 1000),
        "device": device, "session_id": session, "principal": principal, "task_id": task, "event": event, "limit": limit,
    }  # fmt: skip
    request = AuditRequest.of(without_none(fields))
    reply = call_daemon(lambda controller: controller.audit(request))
    if as_json:
        print_json(reply.payload())
    else:
        header = ("TIME", "EVENT", "PRINCIPAL", "TASK", "DEVICE", "SESSION", "DETAILS")
        print_table(header, [_cells(row) for row in reply.rows])
    _report_missing(reply)


@app.command()
def verify(as_json: AsJson = False) -> None:
    """Check that no row was changed, removed or inserted; exit code 1 if one was."""
    reply = call_daemon(lambda controller: controller.audit(AuditRequest(action="verify")))
    if as_json:
        print_json(reply.payload())
    elif reply.first_bad is None:
        typer.echo(f"{reply.verified} rows fit; the hash of the last one is {reply.head}")
    else:
        fault = reply.first_bad
        typer.echo(f"{replace_controls(fault.file)}, line {fault.line}: {fault.why}; {reply.verified} rows before it fit")
    if reply.first_bad is not None:
        raise typer.Exit(1)
    _report_missing(reply)


def _report_missing(reply: AuditReply) -> None:
    """Report that rows of other nodes of the fleet are missing."""
    for notice in reply.notices or ():
        print_message(escape_controls(notice))
    if reply.notices:
        raise typer.Exit(EXIT_NO_CONNECTION)


def _cells(row: dict[str, Any]) -> list[str]:
    when = datetime.fromtimestamp(row.get("ts", 0) / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    details = [escape_controls(f"{name}={value}") for name, value in row.items() if name not in (*_COLUMNS, "prev")]
    return [when, *(str(row.get(name) or "") for name in _COLUMNS[1:]), " ".join(details)]

"""`ptyctl approvals`, `approve` and `decline`: texts that the policy holds back until a person answers."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Annotated, Any

import typer

from ptyctl.api.approvals import ApprovalEntry, ApprovalsReply, ApprovalsRequest
from ptyctl.core.sanitizer import escape_controls

from .approval_text import asked_by, describe, remaining, state, text_lines, where
from .client import ask_daemon, call_daemon, without_none
from .errors import print_message
from .options import AsJson, duration_s
from .output import print_json, print_table

app = typer.Typer(help="Show the texts that wait for a person's approval.", invoke_without_command=True, no_args_is_help=False)

_HEADS = ("ID", "LEFT", "STATE", "ASKED BY", "WHERE", "TEXT", "REASON")
#: Longest text in a cell of the table.
_CELL = 60


def _complete_pending(incomplete: str) -> list[str]:
    """Return the ids of pending requests that start with `incomplete`; does not start a daemon."""
    pending = ask_daemon("approvals", {"action": "list", "state": "pending"}).get("approvals", [])
    ids = [entry["approval_id"] for entry in pending]
    return [approval_id for approval_id in ids if approval_id.startswith(incomplete)]


_Id = Annotated[str, typer.Argument(metavar="ID", help="Id of the request.", autocompletion=_complete_pending)]
_Comment = Annotated[str | None, typer.Option("--comment", metavar="TEXT", help="What the requester is to know.")]


@app.callback()
def approvals(
    context: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show them as they come, and answer with keys.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Also those that were answered or have ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the texts that wait for a person's approval, and what is approved for a time."""
    if context.invoked_subcommand is not None:
        return
    if watch:
        if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
            raise typer.BadParameter("--watch needs a terminal that it can draw on; without one use: ptyctl approvals")
        from . import approval_inbox

        asyncio.run(approval_inbox.run())
        return
    reply = _call("list", limit=1000)
    if not every:
        reply.approvals = [entry for entry in reply.approvals or () if entry.state == "pending" or entry.scope is not None]
    if as_json:
        print_json(reply.payload())
        return
    if reply.approvals:
        print_table(_HEADS, map(_cells, reply.approvals))
    else:
        print_message("nothing waits for an approval")
    if reply.problem is not None:
        print_message(f"the notify command failed: {escape_controls(reply.problem)}")


@app.command()
def show(approval_id: _Id, as_json: AsJson = False) -> None:
    """Show a request completely, with the screen as it was."""
    entry = _one("get", approval_id)
    if as_json:
        print_json(entry.payload())
        return
    for line in describe(entry, time.time()):
        typer.echo(line)


@app.command()
def revoke(approval_id: _Id, comment: _Comment = None, as_json: AsJson = False) -> None:
    """Revoke an approval that was not used, and end its standing approval."""
    _print_answer(_one("revoke", approval_id, comment=comment, via="cli"), "revoked", as_json=as_json)


def approve(
    approval_id: _Id,
    same: Annotated[bool, typer.Option("--same", help="With --for: also approve the same command again.")] = False,
    for_: Annotated[str | None, typer.Option("--for", metavar="TIME", help="How long for --same, such as 10m.")] = None,
    keys: Annotated[
        str | None, typer.Option(metavar="TIME", help="Also let the requester type into the running program, such as 60s.")
    ] = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="Approve this text instead.")] = None,
    comment: _Comment = None,
    as_json: AsJson = False,
) -> None:
    """Approve a request: its text is typed, once."""
    if same != (for_ is not None):
        raise typer.BadParameter("give --same and --for TIME together")
    entry = _one(
        "approve",
        approval_id,
        for_s=_seconds(for_),
        keys_s=_seconds(keys),
        text=None if text is None else text.rstrip("\n"),
        comment=comment,
        via="cli",
    )
    _print_answer(entry, "approved", as_json=as_json)


def decline(approval_id: _Id, comment: _Comment = None, as_json: AsJson = False) -> None:
    """Decline a request: nothing is typed, and the requester gets the comment."""
    _print_answer(_one("decline", approval_id, comment=comment, via="cli"), "declined", as_json=as_json)


def _cells(entry: ApprovalEntry) -> tuple[str, ...]:
    now = time.time()
    shown = _first_line(entry.text)
    if entry.approved_text is not None:
        shown += f" → {_first_line(entry.approved_text)}"
    left = remaining(entry.expires_at, now) if entry.state == "pending" else ""
    return (
        entry.approval_id, left, state(entry, now), asked_by(entry), where(entry), shown, escape_controls(entry.reason),
    )  # fmt: skip


def _first_line(text: str) -> str:
    """Return a text for a cell of the table."""
    first, *others = text_lines(text)
    shown = first if len(first) <= _CELL else f"{first[:_CELL]}…"
    return shown + (f" (+{len(others)} lines)" if others else "")


def _call(action: str, **fields: Any) -> ApprovalsReply:
    request = ApprovalsRequest.of({"action": action, **without_none(fields)})
    return call_daemon(lambda controller: controller.approvals(request))


def _one(action: str, approval_id: str, **fields: Any) -> ApprovalEntry:
    reply = _call(action, approval_id=approval_id, **fields)
    assert reply.approval is not None
    return reply.approval


def _print_answer(entry: ApprovalEntry, done: str, *, as_json: bool) -> None:
    if as_json:
        print_json(entry.payload())
    else:
        text = " ⏎ ".join(text_lines(entry.approved_text or entry.text))
        if entry.state in ("stale", "expired", "withdrawn"):
            done = f"not typed, because the request is {entry.state} ({escape_controls(entry.comment or 'it has ended')})"
        elif entry.used and done == "approved":
            done = "approved and typed"
        typer.echo(f"{done}: {text if len(text) <= _CELL else text[:_CELL] + '…'} on {where(entry)}, for {asked_by(entry)}")


def _seconds(text: str | None) -> int | None:
    return None if text is None else duration_s(text, "10m")

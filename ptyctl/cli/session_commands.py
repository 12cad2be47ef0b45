"""`ptyctl sessions`, `close` and `gc`: list, close and remove sessions."""

from __future__ import annotations

from typing import Annotated

import typer

from ptyctl.api.operator import GcRequest

from .client import call_daemon, without_none
from .frequent_commands import close_session
from .options import AsJson, SessionName, Task
from .output import format_age, format_size, print_json
from .session_list import print_sessions

_REASONS = {"age": "too old", "size": "size limit"}


def sessions(
    include_ended: Annotated[bool, typer.Option("--all", "-a", help="Also list ended sessions on disk.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the open sessions and their size on disk.

    Starts a daemon only if the last one was killed.
    """
    print_sessions(include_ended=include_ended, as_json=as_json)


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

"""`ptyctl gc`: throws old transcripts away."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from . import shown
from .options import AsJson


def gc(
    max_age_days: Annotated[
        float | None,
        typer.Option(metavar="DAYS", min=0, help="Older ones go; 0 is no limit. PTYCTL_GC_MAX_AGE_DAYS unless given."),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            min=0,
            help="The oldest go until so much is left; 0 is no limit. PTYCTL_GC_MAX_BYTES unless given.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only show what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove transcripts that are too old or too much; never one of a live session."""
    from ptyctl.api.gc import GcRequest

    from .calling import call

    given = {"max_age_days": max_age_days, "max_bytes": max_bytes}
    request = GcRequest.of({"dry_run": dry_run, **{name: value for name, value in given.items() if value is not None}})
    reply: dict[str, Any] = call(lambda controller: controller.gc(request)).payload()
    if as_json:
        shown.as_json(reply)
        return
    for entry in reply["removed"]:
        why = "too old" if entry["why"] == "age" else "too much is kept"
        typer.echo(f"{entry['session_id']}  {shown.size(entry['bytes'])}, used {shown.ago(entry['last_used_at'])} ago: {why}")
    done = "would go" if dry_run else "removed"
    left = f"{reply['kept']} kept, {shown.size(reply['kept_bytes'])}"
    typer.echo(f"{len(reply['removed'])} {done}, {shown.size(reply['removed_bytes'])}; {left}")

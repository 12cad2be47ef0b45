"""Arguments and options that several commands share, by the same name everywhere."""

from __future__ import annotations

from typing import Annotated

import typer


def _known(incomplete: str) -> list[str]:
    """Completes the name of a session, as far as a daemon is up."""
    from ptyctl.daemon.asking import Refused, ask
    from ptyctl.daemon.hello import HelloRefused
    from ptyctl.daemon.place import NoPlace, Place

    try:
        reply = ask(Place(), "ptyctl_session", {"action": "list"}) or {}
    except (NoPlace, HelloRefused, Refused):
        return []
    names = [entry.get("device_id") or entry.get("device") or entry["session_id"] for entry in reply.get("sessions", [])]
    return [name for name in names if name.startswith(incomplete)]


SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="An id, a part of one that no other has, or a console's or device's name.",
        autocompletion=_known,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
Task = Annotated[
    str | None, typer.Option("--task", metavar="NAME", envvar="PTYCTL_TASK", help="Who types; this terminal, unless given.")
]

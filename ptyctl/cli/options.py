"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer


def _complete_session(incomplete: str) -> list[str]:
    """Return the names of open sessions that start with `incomplete`; does not start a daemon."""
    from ptyctl.daemon.control import request
    from ptyctl.daemon.errors import DaemonError
    from ptyctl.daemon.runtime_dir import RuntimeDir

    try:
        reply = request(RuntimeDir(), "ptyctl_session", {"action": "list"}) or {}
    except DaemonError:
        return []
    names = [entry.get("device_id") or entry.get("device") or entry["session_id"] for entry in reply.get("sessions", [])]
    return [name for name in names if name.startswith(incomplete)]


SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="A session id, a unique part of one, or the name of a console or device.",
        autocompletion=_complete_session,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Task = Annotated[
    str | None,
    typer.Option("--task", metavar="NAME", envvar="PTYCTL_TASK", help="Name of the task that types; default: this terminal."),
]

"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from .client import ask_daemon


def _complete_session(incomplete: str) -> list[str]:
    """Return the names of open sessions that start with `incomplete`; does not start a daemon."""
    sessions = ask_daemon("ptyctl_session", {"action": "list"}).get("sessions", [])
    names = [entry.get("device_id") or entry.get("device") or entry["session_id"] for entry in sessions]
    return [name for name in names if name.startswith(incomplete)]


SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="A session id, a unique part of one, or the name of a console or device.",
        autocompletion=_complete_session,
    ),
]
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(text: str) -> int | None:
    """Convert a duration such as 90m or 30d (units s, m, h, d) to seconds; None if the text is invalid."""
    match = re.fullmatch(r"([1-9]\d{0,8})([smhd])", text, re.ASCII)
    return None if match is None else int(match[1]) * _UNITS_S[match[2]]


def duration_s(text: str, example: str) -> int:
    """Convert a duration to seconds. Raises typer.BadParameter with an example if the text is invalid."""
    seconds = parse_duration(text)
    if seconds is None:
        raise typer.BadParameter(f"{text!r}: give a number and s, m, h or d, for example {example}")
    return seconds


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Task = Annotated[
    str | None,
    typer.Option("--task", metavar="NAME", envvar="PTYCTL_TASK", help="Name of the task that types; default: this terminal."),
]

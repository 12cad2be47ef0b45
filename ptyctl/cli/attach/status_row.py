"""The status row: the session's name, the lock holder, and messages."""

from __future__ import annotations

from dataclasses import dataclass

HELP = "at the beginning of a line: ~. detach  ~w take or release the lock  ~B BREAK  ~~ types ~"


@dataclass(frozen=True, slots=True)
class AttachStatus:
    """What the status row shows. Sizes are (columns, rows); a message replaces the rest."""

    name: str
    lock_holder: str
    has_lock: bool
    waiting: bool
    session_size: tuple[int, int]
    visible_size: tuple[int, int]
    message: str = ""


def format_status(status: AttachStatus) -> str:
    """Return the text of the row, without control characters that names may contain."""
    return "".join(filter(str.isprintable, status.message or _format_state(status)))


def render_row(text: str, cols: int) -> str:
    """Return the row in reverse video, `cols` wide."""
    return f"\x1b[7m{f' {text}'[:cols].ljust(cols)}\x1b[m"


def _format_state(status: AttachStatus) -> str:
    parts = [status.name, _format_lock(status)]
    if status.session_size[0] > status.visible_size[0] or status.session_size[1] > status.visible_size[1]:
        parts.append("part of {}x{}".format(*status.session_size))
    return " | ".join([*parts, "~? help"])


def _format_lock(status: AttachStatus) -> str:
    if status.has_lock:
        return "you have the lock"
    if status.waiting:
        return f"waiting for the lock of {status.lock_holder}" if status.lock_holder else "waiting for the lock"
    return f"locked by {status.lock_holder}" if status.lock_holder else "not locked; ~w takes the lock"

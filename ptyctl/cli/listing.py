"""What is open, and what is kept: quick, so no models, no event loop, nothing that builds a command line."""

from __future__ import annotations

import sys
from typing import Any

from . import shown

#: What a meta.json has besides the row of `list`, and what is over with the session.
_OF_OPEN_ONES = ("spec", "fence", "lock_holder", "lock_expires_at", "mode", "observers")
_HEADS = ("session", "what", "state", "size", "lock", "seen by", "used", "disk")


def show(*, everything: bool, as_json: bool) -> None:
    """`everything` also lists those that have ended and are kept on disk."""
    entries = _open_ones()
    ended = _ended({entry["session_id"] for entry in entries or []}) if everything else []
    total = sum(entry["disk_bytes"] for entry in [*(entries or []), *ended])
    if as_json:
        shown.as_json({"up": entries is not None, "sessions": entries or [], "ended": ended, "disk_bytes": total})
        return
    if entries is None:
        print("no daemon is up, so nothing is open; ptyctl open starts one", file=sys.stderr)
    if entries or ended:
        shown.table(_HEADS, [_row(entry) for entry in [*(entries or []), *ended]])
        counts = f"{len(entries or [])} open, {len(ended)} ended" if everything else f"{len(entries or [])} open"
        print(f"{counts}, {shown.size(total)} on disk")
    elif entries is not None:
        print("nothing is open", file=sys.stderr)


def _open_ones() -> list[dict[str, Any]] | None:
    """None where no daemon is up. One that was killed is followed by another: its local shells live on."""
    from ptyctl.daemon.asking import ask
    from ptyctl.daemon.place import Place

    place = Place()
    reply = ask(place, "ptyctl_session", {"action": "list"}, start=place.goes_on)
    return None if reply is None else reply["sessions"]


def _ended(known: set[str]) -> list[dict[str, Any]]:
    """What is kept on disk and not open; a state that says so was written by a server that was killed."""
    from ptyctl.controller.settings import load_settings
    from ptyctl.session.transcript.kept_sessions import kept_sessions

    return [
        {
            **{name: value for name, value in kept.meta.items() if name not in _OF_OPEN_ONES},
            "session_id": kept.session_id,
            "state": "closed" if kept.closed else "lost",
            "disk_bytes": kept.disk_bytes,
            "last_activity_at": kept.last_used_at,
        }
        for kept in kept_sessions(load_settings().state_dir / "sessions")
        if kept.session_id not in known
    ]


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    pty = entry.get("pty") or {}
    state = entry["state"]
    if state == "open" and entry.get("mode", "idle") != "idle":
        state = "running" if entry["mode"] == "block_running" else "interactive"
    return (
        entry["session_id"],
        _what(entry),
        state,
        f"{pty['cols']}x{pty['rows']}" if pty else "",
        entry.get("lock_holder") or "",
        str(entry["observers"]) if entry.get("observers") else "",
        shown.ago(entry["last_activity_at"]),
        shown.size(entry["disk_bytes"]),
    )


def _what(entry: dict[str, Any]) -> str:
    """A console or a device by its name, else where it leads."""
    user, port = entry.get("username"), entry.get("port")
    where = (
        f"{entry.get('protocol', '')} {f'{user}@' if user else ''}{entry.get('host') or ''}{f':{port}' if port else ''}".strip()
    )
    name = entry.get("device_id") or entry.get("device") or entry.get("conversation_id")
    return f"{name} ({where})" if name else where

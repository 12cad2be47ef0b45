"""`ptyctl sessions` without the imports that other commands need: no models, event loop or command line parser."""

from __future__ import annotations

import sys
from typing import Any

from .names import name_holder
from .output import format_age, format_size, print_json, print_table, replace_controls

#: Fields of meta.json that a row of the list does not have, or that have no meaning after the session's end.
_FIELDS_OF_OPEN_SESSIONS = ("spec", "fence", "lock_holder", "lock_principal", "lock_expires_at", "mode", "observers")
_HEADS = ("session", "target", "state", "size", "lock", "viewers", "used", "disk")


def print_sessions(*, include_ended: bool, as_json: bool) -> None:
    """List open sessions, and with `include_ended` also the ended ones on disk."""
    found = _open_sessions()
    entries = found or []
    ended = _ended_sessions({entry["session_id"] for entry in entries}) if include_ended else []
    rows = [*entries, *ended]
    total = sum(entry["disk_bytes"] for entry in rows)
    if as_json:
        print_json({"up": found is not None, "sessions": entries, "ended": ended, "disk_bytes": total})
        return
    if found is None:
        print("no daemon is running, so no session is open; ptyctl open starts one", file=sys.stderr)
    if rows:
        of_fleet = any(entry.get("node") for entry in rows)
        heads = (*_HEADS, "node") if of_fleet else _HEADS
        print_table(heads, [(*_row(entry), _node(entry)) if of_fleet else _row(entry) for entry in rows])
        counts = f"{len(entries)} open" + (f", {len(ended)} ended" if include_ended else "")
        print(f"{counts}, {format_size(total)} on disk")
        for entry in entries:
            if entry.get("alarm"):
                print(replace_controls(f"{entry['session_id']}: {entry['alarm']}"), file=sys.stderr)
            if entry.get("given_up"):
                why = f"not reconnected automatically: {entry['given_up']['reason']}"
                print(replace_controls(f"{entry['session_id']}: {why}"), file=sys.stderr)
    elif found is not None:
        print("no session is open", file=sys.stderr)


def _open_sessions() -> list[dict[str, Any]] | None:
    """Return the open sessions, or None without a daemon. After a killed daemon a new one is started for its local shells."""
    from ptyctl.daemon.control import request
    from ptyctl.daemon.runtime_dir import RuntimeDir

    runtime_dir = RuntimeDir()
    reply = request(runtime_dir, "ptyctl_session", {"action": "list"}, start=runtime_dir.has_socket)
    return None if reply is None else reply["sessions"]


def _ended_sessions(open_ids: set[str]) -> list[dict[str, Any]]:
    """Return the sessions on disk that are not open. One without an orderly close was lost with its daemon."""
    from ptyctl.controller.settings import load_settings
    from ptyctl.session.transcript.stored_sessions import stored_sessions

    return [
        {
            **{name: value for name, value in stored.meta.items() if name not in _FIELDS_OF_OPEN_SESSIONS},
            "session_id": stored.session_id,
            "state": "closed" if stored.closed else "lost",
            "disk_bytes": stored.disk_bytes,
            "last_activity_at": stored.last_used_at,
        }
        for stored in stored_sessions(load_settings().state_dir / "sessions")
        if stored.session_id not in open_ids
    ]


def _node(entry: dict[str, Any]) -> str:
    """Return the fleet node of a session, and how long it has been unreachable; empty for a session of this node."""
    silent_s = entry.get("unreachable_s")
    return f"{entry.get('node') or ''}{f' (unreachable for {silent_s} s)' if silent_s is not None else ''}"


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    pty = entry.get("pty") or {}
    state = entry["state"]
    if state == "open" and entry.get("mode", "idle") != "idle":
        state = "running" if entry["mode"] == "block_running" else "interactive"
    return (
        entry["session_id"],
        _target(entry),
        state,
        f"{pty['cols']}x{pty['rows']}" if pty else "",
        name_holder(entry.get("lock_holder"), entry.get("lock_principal")),
        str(entry["observers"]) if entry.get("observers") else "",
        format_age(entry["last_activity_at"]),
        format_size(entry["disk_bytes"]),
    )


def _target(entry: dict[str, Any]) -> str:
    """Return the protocol and address, after the name of the console, device or terminal if it has one."""
    user, port = entry.get("username"), entry.get("port")
    host = f"{f'{user}@' if user else ''}{entry.get('host') or ''}{f':{port}' if port else ''}"
    address = f"{entry.get('protocol', '')} {host}".strip()
    terminal = entry.get("terminal") or {}
    name = entry.get("device_id") or entry.get("device") or entry.get("conversation_id")
    name = name or terminal.get("terminal_id") or terminal.get("mode")
    return f"{name} ({address})" if name else address

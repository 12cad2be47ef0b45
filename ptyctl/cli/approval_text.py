"""Approval requests as text: fields of the table, of the inbox and of `ptyctl approvals show`."""

from __future__ import annotations

from ptyctl.api.approvals import ApprovalEntry
from ptyctl.core.sanitizer import escape_controls

from .output import strip_empty_rows


def describe(entry: ApprovalEntry, now: float) -> list[str]:
    """Return the lines of a request for a terminal. Control and invisible characters are escaped."""
    facts: dict[str, str | None] = {
        "asked by": asked_by(entry),
        "on": where(entry),
        "mode": entry.mode,
        "because": entry.reason,
        "rules": ", ".join(entry.rules),
        "matched": "; ".join(marked_parts(entry)),
        "state": state(entry, now),
        "comment": entry.comment,
        "read as": entry.canonical if entry.canonical != entry.text else None,
    }
    lines = [f"{entry.approval_id}:", *(f"  {line}" for line in text_lines(entry.text))]
    if entry.approved_text is not None:
        lines += [f"changed by {escape_controls(entry.decided_by or '')} to:"]
        lines += [f"  {line}" for line in text_lines(entry.approved_text)]
    lines += [f"{name + ':':10}{escape_controls(value)}" for name, value in facts.items() if value]
    if entry.screen is not None:
        rows = strip_empty_rows([row.rstrip() for row in entry.screen])
        lines += ["screen:", *(f"  {escape_controls(row)}" for row in rows)]
    return lines


def marked_parts(entry: ApprovalEntry) -> list[str]:
    """Return the parts of the text that the rules are about."""
    parts = (entry.text[begin:end] for begin, end in entry.marks or ())
    return [" ⏎ ".join(text_lines(part)) for part in dict.fromkeys(parts)]


def text_lines(text: str) -> list[str]:
    """Return the lines of a text, without characters that a terminal would not show as they are."""
    return [escape_controls(line) for line in text.split("\n")]


def asked_by(entry: ApprovalEntry) -> str:
    """Return the principal, and the task if there is one."""
    return escape_controls(f"{entry.principal}, task {entry.task_id}" if entry.task_id else entry.principal)


def where(entry: ApprovalEntry) -> str:
    """Return the name of the device, or the session."""
    return escape_controls(entry.device or entry.session_id)


def state(entry: ApprovalEntry, now: float) -> str:
    """Return the state, the approver, and the standing approval."""
    parts: list[str] = ["used" if entry.used else entry.state]
    if entry.decided_by is not None:
        through = " through its MCP client" if entry.via == "elicitation" else ""
        parts.append(f"by {escape_controls(entry.decided_by)}{through}")
    if entry.scope is not None and entry.scope.same_until is not None:
        parts.append(f"the same for {remaining(entry.scope.same_until, now)}")
    if entry.scope is not None and entry.scope.keys_until is not None:
        parts.append(f"keys for {remaining(entry.scope.keys_until, now)}")
    return ", ".join(parts)


def describe_outcome(entry: ApprovalEntry) -> str:
    """Return what became of a request that was answered: whether its text was typed, and otherwise why not."""
    text = " ⏎ ".join(text_lines(entry.approved_text or entry.text))
    if entry.state == "approved":
        return f"approved: {text} ({'typed' if entry.used else 'not typed yet'})"
    why = f" ({escape_controls(entry.comment)})" if entry.comment and entry.state != "declined" else ""
    return f"{entry.state}: {text}{' was not typed' if why else ''}{why}"


def remaining(until_ms: int, now: float) -> str:
    """Return the time until `until_ms` in minutes and seconds."""
    seconds = max(round(until_ms / 1000 - now), 0)
    return f"{seconds // 60}:{seconds % 60:02}"

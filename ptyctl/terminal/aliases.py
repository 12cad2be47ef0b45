"""Legacy actions: the canonical action of each, and the transformation of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

CANONICAL_ACTIONS = ("execute", "read_output", "terminate", "list")


class AliasPhase(StrEnum):
    """Treatment of requests with a legacy action (`PM_TERM_ALIAS_PHASE`)."""

    COMPAT = "compat"
    WARN = "warn"
    STRICT = "strict"


class Alias(NamedTuple):
    """The canonical form of a legacy action."""

    action: str
    mode: str | None = None
    intent: str | None = None


#: `list` is canonical and needs no entry.
ALIASES: Mapping[str, Alias] = {
    "run": Alias("execute", "headless", "execute_command"),
    "send": Alias("execute", "interactive", "execute_command"),
    "create": Alias("execute", "interactive", "open_only"),
    "kill": Alias("terminate"),
    "close": Alias("terminate"),
}

#: Where the fields of legacy requests, which are all at the top level, are in a canonical request.
LEGACY_PLACES: Mapping[str, tuple[str, str]] = {
    "command": ("execution", "command"),
    "args": ("execution", "args"),
    "env": ("execution", "env"),
    "name": ("execution", "name"),
    "cwd": ("runtime", "cwd"),
    "timeout": ("runtime", "timeout_ms"),
    "workspace_id": ("runtime", "workspace_id"),
    "session_id": ("target", "session_id"),
    "terminal_id": ("target", "terminal_id"),
}


def canonical_request(request: Mapping[str, Any], alias: Alias) -> dict[str, Any]:
    """Return the canonical form of a legacy request. Canonical fields that the request has are not replaced."""
    result = {name: _copy(value) for name, value in request.items() if name not in LEGACY_PLACES}
    result["action"] = alias.action
    if alias.mode is not None:
        _part(result, "invocation", {"mode": alias.mode, "intent": alias.intent})
    for name, (part, field) in LEGACY_PLACES.items():
        if request.get(name) is not None:
            _part(result, part, {field: request[name]})
    _part(result, "compat", {"legacy_action": request["action"]})
    return result


def deprecation_warning(legacy_action: str) -> str:
    """Return the warning for callers of a legacy action; the same text for the same action."""
    alias = ALIASES[legacy_action]
    intent = f' with invocation.intent "{alias.intent}"' if alias.intent else ""
    return f'the action "{legacy_action}" is deprecated; use "{alias.action}"{intent}'


def _copy(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


def _part(request: dict[str, Any], name: str, fields: Mapping[str, Any]) -> None:
    part = request.get(name)
    if part is None or isinstance(part, dict):  # anything else is left for the validation to report
        request[name] = {**fields, **(part or {})}

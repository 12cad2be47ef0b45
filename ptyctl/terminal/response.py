"""The responses of the contract, as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .errors import TerminalError, TerminalErrorCode, fallback
from .request import Identified

Status = Literal["accepted", "completed", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a request.

    Attributes:
        status: `accepted` if the command still runs, or waits for an approval.
        mode: that of the terminal.
        result: the fields of `result` that have a value.
    """

    status: Status
    result: Mapping[str, Any]
    session_id: str | None = None
    terminal_id: str | None = None
    mode: str | None = None


def success(identified: Identified, outcome: Outcome, *, warn: bool) -> dict[str, Any]:
    """Return the response to a request that succeeded. `warn`: add the warning about a legacy action."""
    return {
        **_head(identified, outcome.status, outcome.mode),
        "identity": {"session_id": outcome.session_id, "terminal_id": outcome.terminal_id},
        "result": {"authorization": "allowed", **outcome.result},
        "error": None,
        **_compat(identified, warn=warn),
    }


def failure(
    identified: Identified,
    error: TerminalError,
    *,
    warn: bool = False,
    identity: tuple[str | None, str | None] | None = None,
) -> dict[str, Any]:
    """Return the response to a request that failed. Every failure has a fallback.

    Args:
        identity: session id and terminal id of the terminal that the request has opened and left open.
    """
    session_id, terminal_id = identity or (None, None)
    return {
        **_head(identified, "failed", None),
        "identity": {"session_id": session_id, "terminal_id": terminal_id},
        "result": None,
        "error": _error(identified, error),
        "fallback": fallback(error.code, identified.request_class),
        **_compat(identified, warn=warn),
    }


def _error(identified: Identified, error: TerminalError) -> dict[str, Any]:
    """Return the error of a response. An internal error has the trace id, which is also in the server's log lines."""
    payload = error.payload()
    if error.code is TerminalErrorCode.INTERNAL:
        payload["details"] |= {"trace_id": identified.correlation.trace_id}
    return payload


def _head(identified: Identified, status: Status, mode: str | None) -> dict[str, Any]:
    return {
        "success": status != "failed",
        "action": identified.canonical_action or identified.action[:64] or None,
        "status": status,
        "correlation": _correlation(identified),
        "resolved": {
            "canonical_action": identified.canonical_action,
            "alias_applied": identified.alias_applied,
            "legacy_action": identified.legacy_action,
            "mode": mode or identified.mode,
        },
    }


def _correlation(identified: Identified) -> dict[str, str]:
    return {name: value for name, value in identified.correlation._asdict().items() if value is not None}


def _compat(identified: Identified, *, warn: bool) -> dict[str, Any]:
    if not identified.alias_applied:
        return {}
    warning = {"deprecation_warning": identified.deprecation} if warn and identified.deprecation else {}
    return {"compat": {"alias_applied": True, **warning}}

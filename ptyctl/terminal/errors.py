"""The contract's error codes, the fallback that each implies, and the code for each error of a Controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from ptyctl.api.errors import ErrorCode, PtyctlError


class TerminalErrorCode(StrEnum):
    """Stable error codes."""

    INVALID_ACTION = "PM_TERM_INVALID_ACTION"
    INVALID_PAYLOAD = "PM_TERM_INVALID_PAYLOAD"
    INVALID_MODE = "PM_TERM_INVALID_MODE"
    DECLINED = "PM_TERM_DECLINED"
    TIMEOUT = "PM_TERM_TIMEOUT"
    DISCONNECTED = "PM_TERM_DISCONNECTED"
    GUI_UNAVAILABLE = "PM_TERM_GUI_UNAVAILABLE"
    BLOCKED_DESTRUCTIVE = "PM_TERM_BLOCKED_DESTRUCTIVE"
    NOT_FOUND = "PM_TERM_NOT_FOUND"
    INTERNAL = "PM_TERM_INTERNAL"


class ErrorKind(NamedTuple):
    """Properties of an error code: category, whether the same request may succeed later, and fallback strategy."""

    category: str
    retriable: bool
    strategy: str
    user_message: str


ERROR_KINDS: Mapping[TerminalErrorCode, ErrorKind] = {
    TerminalErrorCode.INVALID_ACTION: ErrorKind(
        "validation", False, "reject_no_retry", "The action is unknown. Use execute, read_output, terminate or list."
    ),
    TerminalErrorCode.INVALID_PAYLOAD: ErrorKind(
        "validation", False, "reject_no_retry", "The request is not valid. Correct the fields that the error lists."
    ),
    TerminalErrorCode.INVALID_MODE: ErrorKind(
        "validation", False, "reject_no_retry", "The mode is not supported here. Choose another mode."
    ),
    TerminalErrorCode.DECLINED: ErrorKind(
        "user_decision", False, "report_decline", "The command was not approved. Report it; do not try it again."
    ),
    TerminalErrorCode.TIMEOUT: ErrorKind(
        "runtime_timeout",
        True,
        "suggest_retry_headless_or_interactive",
        "The terminal did not answer in time. Retry, or use the other mode.",
    ),
    TerminalErrorCode.DISCONNECTED: ErrorKind(
        "transport",
        True,
        "suggest_reconnect_retry",
        "The connection to the terminal was lost. List the terminals before a command is repeated.",
    ),
    TerminalErrorCode.GUI_UNAVAILABLE: ErrorKind(
        "runtime_unavailable",
        True,
        "fallback_to_headless_if_allowed",
        "The interactive terminal cannot be reached. Start it, or use headless mode.",
    ),
    TerminalErrorCode.BLOCKED_DESTRUCTIVE: ErrorKind(
        "authorization",
        False,
        "reject_with_safety_hint",
        "The policy does not allow this command. Use a command that destroys nothing, or ask a person.",
    ),
    TerminalErrorCode.NOT_FOUND: ErrorKind(
        "identity", False, "refresh_list_then_retry", "There is no such terminal or session. List them, then retry."
    ),
    TerminalErrorCode.INTERNAL: ErrorKind(
        "internal",
        True,
        "deterministic_internal_fallback",
        "An unexpected error occurred. Its trace_id finds the details in the server's log.",
    ),
}


class RequestClass(NamedTuple):
    """The properties of a request that select a fallback: the canonical action and the mode; None if unknown."""

    action: str | None = None
    mode: str | None = None


@dataclass(eq=False, slots=True)  # not frozen: context managers set the traceback of an exception
class TerminalError(Exception):
    """A failed request. The message and the details hold no secret, no rejected value and no stack trace."""

    code: TerminalErrorCode
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def payload(self) -> dict[str, Any]:
        """Return the `error` object of a response."""
        kind = ERROR_KINDS[self.code]
        return {
            "code": str(self.code),
            "category": kind.category,
            "message": self.message,
            "retriable": kind.retriable,
            "details": dict(self.details),
        }


def fallback(code: TerminalErrorCode, request: RequestClass) -> dict[str, Any]:
    """Return the `fallback` object: a function of the code and the class of the request alone."""
    kind = ERROR_KINDS[code]
    next_action, mode = _next_step(kind.strategy, request)
    return {
        "strategy": kind.strategy,
        "next_action": next_action,
        "recommended_mode": mode,
        "user_message": kind.user_message,
        "can_auto_retry": code is TerminalErrorCode.DISCONNECTED and request.action in _REPEATABLE,
    }


#: Actions that have no effect when they are performed twice.
_REPEATABLE = ("read_output", "terminate", "list")


def _next_step(strategy: str, request: RequestClass) -> tuple[str | None, str | None]:
    """Return the action and the mode that a fallback recommends."""
    other_mode = {"interactive": "headless", "headless": "interactive"}.get(request.mode or "")
    repeated = request.action if request.action in _REPEATABLE else "list"
    steps: dict[str, tuple[str | None, str | None]] = {
        "suggest_retry_headless_or_interactive": (request.action, other_mode),
        "suggest_reconnect_retry": (repeated, request.mode),
        "fallback_to_headless_if_allowed": (request.action, "headless"),
        "refresh_list_then_retry": ("list", None),
        "deterministic_internal_fallback": ("list", None),
    }
    return steps.get(strategy, (None, None))


#: BUSY and LOCKED are temporary; TIMEOUT is the contract's only retriable code for that.
_CODES: Mapping[ErrorCode, TerminalErrorCode] = {
    ErrorCode.INVALID_ARGUMENT: TerminalErrorCode.INVALID_PAYLOAD,
    ErrorCode.UNSUPPORTED: TerminalErrorCode.INVALID_PAYLOAD,
    ErrorCode.NOT_FOUND: TerminalErrorCode.NOT_FOUND,
    ErrorCode.ALREADY_CLOSED: TerminalErrorCode.NOT_FOUND,
    ErrorCode.REMOTE_CLOSED: TerminalErrorCode.NOT_FOUND,
    ErrorCode.CONNECT_TIMEOUT: TerminalErrorCode.TIMEOUT,
    ErrorCode.CONNECT_FAILED: TerminalErrorCode.GUI_UNAVAILABLE,
    ErrorCode.AUTH_FAILED: TerminalErrorCode.GUI_UNAVAILABLE,
    ErrorCode.HOSTKEY_MISMATCH: TerminalErrorCode.GUI_UNAVAILABLE,
    ErrorCode.IO_ERROR: TerminalErrorCode.DISCONNECTED,
    ErrorCode.LOCKED: TerminalErrorCode.TIMEOUT,
    ErrorCode.LOCK_REQUIRED: TerminalErrorCode.TIMEOUT,
    ErrorCode.LOCK_LOST: TerminalErrorCode.TIMEOUT,
    ErrorCode.CLAIM_LOST: TerminalErrorCode.DISCONNECTED,
    ErrorCode.SESSION_MOVED: TerminalErrorCode.NOT_FOUND,
    ErrorCode.BUSY: TerminalErrorCode.TIMEOUT,
    ErrorCode.LIMIT_EXCEEDED: TerminalErrorCode.GUI_UNAVAILABLE,
    ErrorCode.FORBIDDEN: TerminalErrorCode.BLOCKED_DESTRUCTIVE,
    ErrorCode.POLICY_DENIED: TerminalErrorCode.BLOCKED_DESTRUCTIVE,
    ErrorCode.DECLINED: TerminalErrorCode.DECLINED,
    ErrorCode.APPROVAL_PENDING: TerminalErrorCode.TIMEOUT,
    ErrorCode.INTERNAL: TerminalErrorCode.INTERNAL,
}


def from_controller(error: PtyctlError) -> TerminalError:
    """Return the error of the contract. The Controller's code, hint and details are kept in its details."""
    hint = {"hint": str(error.hint)} if error.hint else {}
    details = {"error_code": str(error.code), **hint, **error.details}
    return TerminalError(_CODES[error.code], error.message, details)

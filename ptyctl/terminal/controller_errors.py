"""The contract's error for each error of a Controller."""

from __future__ import annotations

from collections.abc import Mapping

from ptyctl.api.errors import ErrorCode, PtyctlError

from .errors import TerminalError, TerminalErrorCode

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

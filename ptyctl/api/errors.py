"""The one error that crosses a door: a stable code, what happened to what and the next step, and details for programs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class ErrorCode(StrEnum):
    """Every code a ptyctl tool can answer with (CONTRACTS, errors of the ptyctl surface)."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_CLOSED = "ALREADY_CLOSED"
    CONNECT_TIMEOUT = "CONNECT_TIMEOUT"
    CONNECT_FAILED = "CONNECT_FAILED"
    AUTH_FAILED = "AUTH_FAILED"
    HOSTKEY_MISMATCH = "HOSTKEY_MISMATCH"
    IO_ERROR = "IO_ERROR"
    REMOTE_CLOSED = "REMOTE_CLOSED"
    UNSUPPORTED = "UNSUPPORTED"
    LOCKED = "LOCKED"
    LOCK_REQUIRED = "LOCK_REQUIRED"
    LOCK_LOST = "LOCK_LOST"
    BUSY = "BUSY"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    POLICY_DENIED = "POLICY_DENIED"
    DECLINED = "DECLINED"
    INTERNAL = "INTERNAL"


#: Codes after which the very same call may succeed later.
RETRYABLE = frozenset(
    {
        ErrorCode.CONNECT_TIMEOUT,
        ErrorCode.CONNECT_FAILED,
        ErrorCode.IO_ERROR,
        ErrorCode.LOCKED,
        ErrorCode.BUSY,
        ErrorCode.LIMIT_EXCEEDED,
    }
)


class PtyctlError(Exception):
    """What a Controller raises, and nothing else. No message holds a secret, nor the rejected value of a secret field."""

    def __init__(self, code: ErrorCode, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details or {}

    @property
    def retryable(self) -> bool:
        return self.code in RETRYABLE

    def payload(self) -> dict[str, Any]:
        """The error as every door sends it."""
        return {
            "error_code": str(self.code),
            "message": self.message,
            "details": self.details,
            "retryable": self.retryable,
        }


def invalid(message: str, **details: Any) -> PtyctlError:
    """The request is wrong as it stands; the message says how to mend it."""
    return PtyctlError(ErrorCode.INVALID_ARGUMENT, message, details)


def unsupported(message: str, **details: Any) -> PtyctlError:
    """The request makes sense, but not on this session or in this version."""
    return PtyctlError(ErrorCode.UNSUPPORTED, message, details)

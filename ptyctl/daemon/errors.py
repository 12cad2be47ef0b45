"""Errors of the daemon's client side and of its start, for a person at a terminal."""

from __future__ import annotations

import signal

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.core import json_lines
from ptyctl.version import __version__

#: Exit code of a process that the daemon, or the start of a daemon, has refused.
EXIT_REFUSED = 2
#: Exit code of a process that was interrupted with Ctrl-C.
EXIT_INTERRUPTED = 128 + signal.SIGINT


class DaemonError(Exception):
    """The daemon cannot be used, started or reached. `str()` gives the message and the hint in one line.

    Attributes:
        message: what failed, on what, and why.
        hint: the next step, or None.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class RequestError(DaemonError):
    """A daemon that is up answered a request with an error, or did not end in time."""


class ConnectionRejectedError(DaemonError):
    """The daemon is up and rejects the connection for the reason `error`."""

    def __init__(self, error: PtyctlError) -> None:
        super().__init__(error.message, error.hint)
        self.error = error


class DaemonConnectionLost(PtyctlError):
    """IO_ERROR: the connection to the daemon was lost. The next daemon may restore the session."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.IO_ERROR,
            "the connection to the daemon was lost during the call, which may have had its effect; local shells survive",
            hint=NextStep.READ_STATE,
        )


def encode_rejection(error: PtyctlError) -> bytes:
    """Return the daemon's answer to a client that it does not serve."""
    message = f"{error.message}; {error.hint}" if error.hint else error.message
    return json_lines.encode({"ok": False, "version": __version__, "message": message, "error": error.payload()})


def no_daemon(error: DaemonError | OSError) -> PtyctlError:
    """Return the error of a call that found no daemon, or that the daemon rejected."""
    if isinstance(error, ConnectionRejectedError):
        return error.error
    message, hint = (error.message, error.hint) if isinstance(error, DaemonError) else (str(error), None)
    return PtyctlError(ErrorCode.CONNECT_FAILED, f"no daemon: {message}", hint=hint)

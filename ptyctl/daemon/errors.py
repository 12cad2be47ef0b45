"""Errors of the daemon's client side and of its start, for a person at a terminal."""

from __future__ import annotations


class DaemonError(Exception):
    """Base class. `str()` gives the message and the hint in one line.

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


class RuntimeDirError(DaemonError):
    """The runtime directory cannot be used."""


class AlreadyRunningError(DaemonError):
    """Another daemon is up in the same runtime directory."""


class FdStoreError(DaemonError):
    """The descriptor store does not answer."""


class StartError(DaemonError):
    """The daemon could not be started. The message holds the last line that it logged."""


class HandshakeError(DaemonError):
    """The daemon rejected the connection, or did not answer."""


class StopError(DaemonError):
    """The daemon did not end in time."""


class RequestError(DaemonError):
    """The daemon answered a request with an error."""

"""Errors of the daemon's client side and of its start, for a person at a terminal."""

from __future__ import annotations


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

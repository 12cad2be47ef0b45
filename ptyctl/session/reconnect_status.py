"""The state of a session whose connection was lost and is being reconnected."""

from __future__ import annotations

from dataclasses import dataclass

from ptyctl.api.errors import ErrorCode, PtyctlError


@dataclass(frozen=True, slots=True)
class ReconnectStatus:
    """Why the last attempt failed, and when the next begins.

    Attributes:
        next_attempt: on the loop's clock; None while an attempt is in progress.
    """

    why: str
    next_attempt: float | None = None

    def describe(self, now: float) -> str:
        """Return the status as text."""
        if self.next_attempt is None:
            return f"reconnecting ({self.why}); an attempt is in progress"
        return f"reconnecting ({self.why}); the next attempt is in {self._wait_s(now):.0f} s"

    def error(self, session_id: str, now: float) -> PtyctlError:
        """Return the error for a call that needs the connection."""
        return PtyctlError(
            ErrorCode.CONNECT_FAILED,
            f"session {session_id} is {self.describe(now)}",
            {"state": "reconnecting", "retry_after_ms": round(self._wait_s(now) * 1000)},
            hint="call again after that time, open the session to try now, or close it to stop reconnecting",
        )

    def _wait_s(self, now: float) -> float:
        return 0.0 if self.next_attempt is None else max(self.next_attempt - now, 0.0)

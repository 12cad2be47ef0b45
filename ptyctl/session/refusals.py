"""What is answered where a session has no line to write to."""

from __future__ import annotations

from ptyctl.api.errors import ErrorCode, PtyctlError


def already_closed(session_id: str, why: str) -> PtyctlError:
    """What everything but reading answers on a closed session."""
    return PtyctlError(
        ErrorCode.ALREADY_CLOSED,
        f"session {session_id} is closed ({why}); its history can still be read, or open a new one",
    )


def far_end_gone(session_id: str, state: str, why: str) -> PtyctlError:
    """It has ended, and nobody connects it anew."""
    return PtyctlError(
        ErrorCode.REMOTE_CLOSED,
        f"the far end of session {session_id} is gone: {why}; read what is left, then open again",
        {"state": state},
    )

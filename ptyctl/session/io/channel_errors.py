"""Translation of channel errors into the errors that callers get."""

from __future__ import annotations

from ptyctl.api.errors import ErrorCode, PtyctlError
from transports.errors import ChannelBroken, ChannelError


def from_channel(error: ChannelError) -> PtyctlError:
    """Return the error for the caller, with the same code.

    A channel that breaks in use is REMOTE_CLOSED: the far end is gone.
    """
    code = ErrorCode.REMOTE_CLOSED if isinstance(error, ChannelBroken) else ErrorCode(error.code)
    return PtyctlError(code, error.message, dict(error.details), hint=error.hint)

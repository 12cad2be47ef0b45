"""What a channel raises becomes what a caller is told: one table, the codes are the same."""

from __future__ import annotations

from ptyctl.api.errors import ErrorCode, PtyctlError
from transports.errors import ChannelBroken, ChannelError


def from_channel(error: ChannelError) -> PtyctlError:
    """The error for the caller. A channel that broke while it was used is REMOTE_CLOSED too: the remote end is gone."""
    code = ErrorCode.REMOTE_CLOSED if isinstance(error, ChannelBroken) else ErrorCode(error.code)
    return PtyctlError(code, error.message, dict(error.details), hint=error.hint)

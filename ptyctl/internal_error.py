"""The error that an interface reports for an unexpected exception."""

from __future__ import annotations

import logging
import secrets
import traceback
from pathlib import PurePath

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.trace import current_trace_id

_LOG = logging.getLogger(__name__)


def internal_error(call: str, error: Exception) -> PtyctlError:
    """Log an unexpected exception of a call and return its error. Neither has the exception's text, which may hold a secret.

    Both have the call's trace id, or a new one.
    """
    trace_id = current_trace_id() or secrets.token_hex(8)
    frames = [
        f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    name = type(error).__qualname__
    _LOG.error("call failed", extra={"call": call, "trace_id": trace_id, "error": name, "frames": frames})
    return PtyctlError(
        ErrorCode.INTERNAL,
        f"internal error in ptyctl ({name}); the server's log has the trace id {trace_id}",
        {"trace_id": trace_id},
        hint=NextStep.READ_STATE,
    )

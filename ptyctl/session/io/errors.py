"""Translation of errors of channels and of the operating system to errors of the API."""

from __future__ import annotations

import errno
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from transports.errors import ChannelBroken, ChannelError

_LOG = logging.getLogger(__name__)
OPEN_FILE_LIMITS = (errno.EMFILE, errno.ENFILE)
#: Errors of a connection. Only file systems of other machines have some of them, too.
_CONNECTION_ERRORS = frozenset(
    {
        *(errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ESHUTDOWN, errno.ENOTCONN),
        *(errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET),
    }
)

P = ParamSpec("P")
R = TypeVar("R")


def from_os_error(error: OSError) -> PtyctlError:
    """Log an operating-system error that a call has not handled, and return the error for its caller."""
    why = _why(error)
    _LOG.warning("a call failed", extra={"why": why, "file": error.filename})
    if error.errno in OPEN_FILE_LIMITS:
        return PtyctlError(
            ErrorCode.LIMIT_EXCEEDED, f"the server cannot open another file: {why}", hint=NextStep.CLOSE_SESSIONS
        )
    if error.errno in _CONNECTION_ERRORS and error.filename is None:
        return PtyctlError(ErrorCode.REMOTE_CLOSED, f"the connection broke: {why}", hint=NextStep.OPEN_SESSION)
    return PtyctlError(ErrorCode.IO_ERROR, f"the server cannot use a file: {why}", hint="make the state directory accessible")


def log_background_error(error: OSError, work: str) -> None:
    """Log an error that ended background work, unless it is the limit of open files: the next attempt may succeed."""
    if error.errno not in OPEN_FILE_LIMITS:
        _LOG.warning("background work failed", extra={"work": work, "why": _why(error), "file": error.filename})


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__


def reports_os_errors(call: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Decorate a call of a controller, which raises PtyctlError only."""

    @functools.wraps(call)
    async def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await call(*args, **kwargs)
        except OSError as error:
            raise from_os_error(error) from error

    return checked


def from_channel(error: ChannelError) -> PtyctlError:
    """Return the error for the caller, with the same code.

    A channel that breaks in use is REMOTE_CLOSED: the far end is gone.
    """
    code = ErrorCode.REMOTE_CLOSED if isinstance(error, ChannelBroken) else ErrorCode(error.code)
    return PtyctlError(code, error.message, dict(error.details), hint=error.hint)

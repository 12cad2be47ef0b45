"""What went wrong, in one line with the next step, and the exit code that a script can go by. It is told nowhere else."""

from __future__ import annotations

import sys

from typer.exceptions import TyperException

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.daemon.asking import Refused
from ptyctl.daemon.control import NotEnded
from ptyctl.daemon.hello import HelloRefused
from ptyctl.daemon.place import NoPlace
from ptyctl.daemon.starting import NotStarted

FAILED = 1
USAGE = 2
NOT_FOUND = 3
LOCKED = 4
TIMED_OUT = 5
NO_CONNECTION = 6

#: `exec` answers with the command's own exit code; what kept it from that is told above the codes that commands use.
EXEC_OFFSET = 100

#: All that a command may end with.
FAILURES = (PtyctlError, NoPlace, NotStarted, HelloRefused, NotEnded, Refused, TyperException)

_CODES = {
    ErrorCode.INVALID_ARGUMENT: USAGE,
    ErrorCode.UNSUPPORTED: USAGE,
    ErrorCode.NOT_FOUND: NOT_FOUND,
    ErrorCode.ALREADY_CLOSED: NOT_FOUND,
    ErrorCode.LOCKED: LOCKED,
    ErrorCode.LOCK_REQUIRED: LOCKED,
    ErrorCode.LOCK_LOST: LOCKED,
    ErrorCode.BUSY: LOCKED,
    ErrorCode.CONNECT_TIMEOUT: TIMED_OUT,
    ErrorCode.CONNECT_FAILED: NO_CONNECTION,
    ErrorCode.AUTH_FAILED: NO_CONNECTION,
    ErrorCode.HOSTKEY_MISMATCH: NO_CONNECTION,
    ErrorCode.REMOTE_CLOSED: NO_CONNECTION,
    ErrorCode.IO_ERROR: NO_CONNECTION,
}

#: What a person does next, where the message says it in the words of the tools.
_NEXT = {
    ErrorCode.NOT_FOUND: "ptyctl sessions --all lists what there is",
    ErrorCode.LOCKED: "watch with: ptyctl attach; or wait: ptyctl lock --wait",
    ErrorCode.LOCK_REQUIRED: "take the lock with: ptyctl lock",
}


def told(error: BaseException) -> int:
    """Says it on stderr; the answer is the exit code."""
    if isinstance(error, PtyctlError):
        following = _NEXT.get(error.code)
        _say(f"{error.message} ({following})" if following else error.message)
        return _CODES.get(error.code, FAILED)
    if isinstance(error, TyperException):
        _say(f"{_usage(error)}; see: ptyctl --help")
        return USAGE
    _say(str(error))
    return FAILED if isinstance(error, NotEnded | Refused) else NO_CONNECTION


def _usage(error: TyperException) -> str:
    message: str = error.format_message() if hasattr(error, "format_message") else str(error)
    return message.rstrip(".")


def _say(text: str) -> None:
    print(f"ptyctl: {' '.join(text.split())}", file=sys.stderr, flush=True)

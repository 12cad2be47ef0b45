"""What went wrong, in one line with the next step, and the exit code that a script can go by. It is told nowhere else."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from typer import BadParameter
from typer.exceptions import Abort, TyperException

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.daemon.asking import Refused
from ptyctl.daemon.control import NotEnded
from ptyctl.daemon.hello import HelloRefused
from ptyctl.daemon.place import NoPlace
from ptyctl.daemon.starting import NotStarted

from .shown import harmless

FAILED = 1
USAGE = 2
NOT_FOUND = 3
LOCKED = 4
TIMED_OUT = 5
NO_CONNECTION = 6
INTERRUPTED = 128 + signal.SIGINT
#: Whoever read our output has gone (`ptyctl log sw1 | head`).
UNREAD = 128 + signal.SIGPIPE

#: `exec` answers with the command's own exit code; what kept it from that is told above the codes that commands use.
EXEC_OFFSET = 100

#: All that a command may end with.
FAILURES = (PtyctlError, NoPlace, NotStarted, HelloRefused, NotEnded, Refused, TyperException, Abort, OSError)

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

#: What a person does next, where the message says behind its semicolon what a caller of the tools would: by the code, and by
#: what the error is about, where that matters.
_NEXT = {
    (ErrorCode.LOCKED, None): "watch with: ptyctl attach; or wait: ptyctl lock --wait",
    (ErrorCode.LOCK_REQUIRED, None): "take the lock with: ptyctl lock",
    (ErrorCode.BUSY, "block_id"): "watch with: ptyctl attach; or interrupt it: ptyctl send --key ctrl_c",
    (ErrorCode.NOT_FOUND, "session_id"): "ptyctl sessions --all lists those that there are",
    (ErrorCode.NOT_FOUND, "block_id"): "ptyctl blocks lists those that there are",
}


def told(error: BaseException) -> int:
    """Says it on stderr; the answer is the exit code."""
    match error:
        case PtyctlError():
            _say(_with_next_step(error))
            return _CODES.get(error.code, FAILED)
        case TyperException():
            _say(_usage(error))
            return USAGE
        case Abort():
            _say("interrupted")
            return INTERRUPTED
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still to be flushed goes nowhere
            return UNREAD
        case OSError():
            _say(f"{error.filename}: {error.strerror}; name another place" if error.filename else str(error))
            return FAILED
        case _:
            _say(str(error))
            return FAILED if isinstance(error, NotEnded | Refused) else NO_CONNECTION


def _with_next_step(error: PtyctlError) -> str:
    following = next(filter(None, (_NEXT.get((error.code, about)) for about in (*error.details, None))), None)
    return f"{error.message.partition('; ')[0]}; {following}" if following else error.message


def _usage(error: TyperException) -> str:
    """What is wrong with the command line, and whose help tells more."""
    parameter: Any = getattr(error, "param", None) or getattr(error, "param_hint", None)
    plain = isinstance(error, BadParameter) and parameter is None
    message = (error.message if plain else error.format_message()).rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "ptyctl"
    return f"{message}{' S' if message.endswith('?') else '; s'}ee: {command} --help"


def _say(text: str) -> None:
    print(f"ptyctl: {harmless(' '.join(text.split()))}", file=sys.stderr, flush=True)

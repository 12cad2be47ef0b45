"""Error messages on stderr, one line each, and the exit codes of all commands."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.daemon.errors import EXIT_INTERRUPTED, DaemonError, RequestError

from .output import replace_controls

if TYPE_CHECKING:
    from typer.exceptions import TyperException

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_LOCKED = 4
EXIT_TIMED_OUT = 5
EXIT_NO_CONNECTION = 6
#: The reader of our output closed the pipe (`ptyctl log sw1 | head`).
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE

#: `exec` exits with the command's own exit code, and adds this offset to ptyctl's.
EXEC_OFFSET = 100

#: The exceptions of sessions and of the daemon's client that a command reports.
SESSION_ERRORS = (PtyctlError, DaemonError, OSError)

_EXIT_CODES = {
    ErrorCode.INVALID_ARGUMENT: EXIT_USAGE,
    ErrorCode.UNSUPPORTED: EXIT_USAGE,
    ErrorCode.NOT_FOUND: EXIT_NOT_FOUND,
    ErrorCode.ALREADY_CLOSED: EXIT_NOT_FOUND,
    ErrorCode.LOCKED: EXIT_LOCKED,
    ErrorCode.LOCK_REQUIRED: EXIT_LOCKED,
    ErrorCode.LOCK_LOST: EXIT_LOCKED,
    ErrorCode.BUSY: EXIT_LOCKED,
    ErrorCode.CONNECT_TIMEOUT: EXIT_TIMED_OUT,
    ErrorCode.CONNECT_FAILED: EXIT_NO_CONNECTION,
    ErrorCode.AUTH_FAILED: EXIT_NO_CONNECTION,
    ErrorCode.HOSTKEY_MISMATCH: EXIT_NO_CONNECTION,
    ErrorCode.REMOTE_CLOSED: EXIT_NO_CONNECTION,
    ErrorCode.CLAIM_LOST: EXIT_NO_CONNECTION,
    ErrorCode.SESSION_MOVED: EXIT_NO_CONNECTION,
    ErrorCode.IO_ERROR: EXIT_NO_CONNECTION,
}

#: Next steps as commands, with the name of the session. A hint without an entry is shown in its neutral wording.
_NEXT_STEPS: dict[str, str] = {
    NextStep.TAKE_LOCK: "take the lock with: ptyctl lock {session}",
    NextStep.RETAKE_LOCK: "take the lock again with: ptyctl lock {session}; "
    "and read the output since then with: ptyctl tail {session}",
    NextStep.WAIT_FOR_LOCK: "watch with: ptyctl attach {session}; or wait: ptyctl lock {session} --wait",
    NextStep.INTERRUPT_OR_WAIT: "watch with: ptyctl attach {session}; or interrupt it: ptyctl send {session} --key ctrl_c",
    NextStep.ANSWER_OR_INTERRUPT: "answer with: ptyctl send {session} TEXT; "
    "or interrupt it: ptyctl send {session} --key ctrl_c",
    NextStep.WAIT_FOR_PROMPT: "watch with: ptyctl attach {session}",
    NextStep.RUN_WITH_RESPONSES: "run the device's own command with: ptyctl attach {session} --write",
    NextStep.LEAVE_PAGER: "quit the pager with: ptyctl send {session} q",
    NextStep.LEAVE_QUESTION: "answer with: ptyctl send {session} TEXT; or leave it with: ptyctl send {session} --key ctrl_c",
    NextStep.LEAVE_TEXT: "end the text with: ptyctl send {session} TEXT; or leave it with: ptyctl send {session} --key ctrl_c",
    NextStep.LEAVE_EDITOR: "leave the program with: ptyctl attach {session} --write",
    NextStep.LEAVE_UNFINISHED: "leave the unfinished command with: ptyctl send {session} --key ctrl_c; then begin it again",
    NextStep.AWAIT_ANSWER: "see the request with: ptyctl approvals; then repeat the command with --approval and its id",
    NextStep.FIND_APPROVER: "nobody who may answer is connected: ask a person to run: ptyctl approvals; "
    "then repeat the command with --approval and its id",
    NextStep.CLEAR_LINE: "finish or delete the line with: ptyctl attach {session} --write",
    NextStep.FIND_PROMPT: "look at it with: ptyctl screen {session}; type with: ptyctl send {session} TEXT",
    NextStep.CHECK_SHELL: "look at it with: ptyctl screen {session}; repeat the command if it is for this shell",
    NextStep.SEND_ENTER: "send Enter alone with: ptyctl send {session} --key enter",
    NextStep.RESET_TERMINAL: "close it with: ptyctl close {session} --force; then open a new one",
    NextStep.READ_OUTPUT: "read it with: ptyctl tail {session}",
    NextStep.READ_SCREEN: "look at it with: ptyctl screen {session}",
    NextStep.READ_STATE: "see its state with: ptyctl sessions",
    NextStep.LIST_SESSIONS: "list the sessions with: ptyctl sessions --all",
    NextStep.LIST_BLOCKS: "list the blocks with: ptyctl blocks {session}",
    NextStep.LIST_DEVICES: "list the devices with: ptyctl devices",
    NextStep.OPEN_SESSION: "open a new session with: ptyctl open; read this one with: ptyctl log {session}",
    NextStep.CLOSE_SESSIONS: "list them with: ptyctl sessions; then: ptyctl close",
}


def reported_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a command reports; any other one is a bug and ends with a traceback."""
    if "typer" not in sys.modules:  # without the command line parser, none of its exceptions was raised
        return SESSION_ERRORS
    from typer.exceptions import Abort, TyperException

    return (*SESSION_ERRORS, TyperException, Abort)


def report_error(error: BaseException) -> int:
    """Print `error` on stderr in one line and return the exit code. A broken pipe is not printed."""
    match error:
        case PtyctlError():
            print_message(format_error(error))
            return _EXIT_CODES.get(error.code, EXIT_FAILED)
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes stdout at exit, which would fail again
            return EXIT_BROKEN_PIPE
        case OSError():
            print_message(f"{error.filename}: {error.strerror}; name another path" if error.filename else str(error))
            return EXIT_FAILED
        case DaemonError():
            print_message(format_error(error))
            return EXIT_FAILED if isinstance(error, RequestError) else EXIT_NO_CONNECTION
        case _:
            return _report_parser_error(error)


def _report_parser_error(error: BaseException) -> int:
    from typer.exceptions import Abort, TyperException

    match error:
        case TyperException():
            print_message(_format_usage_error(error))
            return EXIT_USAGE
        case Abort():
            print_message("interrupted")
            return EXIT_INTERRUPTED
    raise error


def format_error(error: PtyctlError | DaemonError) -> str:
    """Return the message and, after a semicolon, the next step as a command."""
    return format_message(error.message, error.hint)


def format_message(message: str, hint: str | None) -> str:
    """Return `message` and, after a semicolon, the next step as a command."""
    return f"{message}; {_hint_for(hint, 'SESSION')}" if hint else message


@contextmanager
def session_named(name: str) -> Iterator[None]:
    """Name the session, as the user did, in the commands of the next steps of errors."""
    try:
        yield
    except PtyctlError as error:
        if error.hint in _NEXT_STEPS:
            error.hint = _hint_for(error.hint, shlex.quote(name))
        raise


def _hint_for(hint: str, session: str) -> str:
    """Return a next step as a command."""
    return _NEXT_STEPS[hint].format(session=session) if hint in _NEXT_STEPS else hint


def print_message(text: str) -> None:
    """Print `text` on stderr as one line with the program's name."""
    print(f"ptyctl: {replace_controls(' '.join(text.split()))}", file=sys.stderr, flush=True)


def _format_usage_error(error: TyperException) -> str:
    """Return the fault in the command line, and the command that prints its help."""
    from typer import BadParameter

    parameter: Any = getattr(error, "param", None) or getattr(error, "param_hint", None)
    plain = isinstance(error, BadParameter) and parameter is None
    message = (error.message if plain else error.format_message()).rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "ptyctl"
    return f"{message}{' S' if message.endswith('?') else '; s'}ee: {command} --help"

"""The error that every interface reports: a stable code, a message, the next step, and details for programs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class ErrorCode(StrEnum):
    """The error codes of the ptyctl_* tools (docs/contracts.md, Errors)."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_CLOSED = "ALREADY_CLOSED"
    CONNECT_TIMEOUT = "CONNECT_TIMEOUT"
    CONNECT_FAILED = "CONNECT_FAILED"
    AUTH_FAILED = "AUTH_FAILED"
    HOSTKEY_MISMATCH = "HOSTKEY_MISMATCH"
    IO_ERROR = "IO_ERROR"
    REMOTE_CLOSED = "REMOTE_CLOSED"
    UNSUPPORTED = "UNSUPPORTED"
    LOCKED = "LOCKED"
    LOCK_REQUIRED = "LOCK_REQUIRED"
    LOCK_LOST = "LOCK_LOST"
    CLAIM_LOST = "CLAIM_LOST"
    SESSION_MOVED = "SESSION_MOVED"
    BUSY = "BUSY"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    FORBIDDEN = "FORBIDDEN"
    POLICY_DENIED = "POLICY_DENIED"
    DECLINED = "DECLINED"
    APPROVAL_PENDING = "APPROVAL_PENDING"
    INTERNAL = "INTERNAL"


#: Codes of errors after which the same call may succeed later.
RETRYABLE = frozenset(
    {
        ErrorCode.CONNECT_TIMEOUT,
        ErrorCode.CONNECT_FAILED,
        ErrorCode.IO_ERROR,
        ErrorCode.LOCKED,
        ErrorCode.CLAIM_LOST,
        ErrorCode.BUSY,
        ErrorCode.LIMIT_EXCEEDED,
        ErrorCode.APPROVAL_PENDING,
    }
)


class NextStep(StrEnum):
    """Next steps whose wording depends on the interface.

    A value is the neutral wording. An interface that has a command or a tool for the step keeps a table from `NextStep` to its
    own words; a hint that is not in the table is shown as it is.
    """

    TAKE_LOCK = "take the lock"
    RETAKE_LOCK = "take the lock again, and read the output since then before you type"
    WAIT_FOR_LOCK = "read without a lock, or wait for it"
    INTERRUPT_OR_WAIT = "wait for the running command, or interrupt it"
    ANSWER_OR_INTERRUPT = "answer the question, or interrupt the command"
    WAIT_FOR_PROMPT = "wait for the prompt"
    RUN_WITH_RESPONSES = "run the device's own command, and answer its questions"
    LEAVE_PAGER = "quit the pager with q, then repeat the call"
    LEAVE_QUESTION = "answer the question or press Ctrl-C, then repeat the call"
    LEAVE_TEXT = "end the text that is being typed, or press Ctrl-C, then repeat the call"
    LEAVE_EDITOR = "look at the screen, and leave the full-screen program, then repeat the call"
    LEAVE_UNFINISHED = "press Ctrl-C to leave the unfinished command, then begin it again without the refused line"
    AWAIT_ANSWER = "wait until a person answers the request"
    FIND_APPROVER = "ask a person who may approve it: none is connected"
    RETYPE_LINE = "delete the line, and type it again without Tab, history or cursor keys"
    CLEAR_LINE = "look at the screen, and delete the typed line with Ctrl-U or Ctrl-C, then repeat the call"
    FIND_PROMPT = "look at the screen; wait for the prompt, or type what the program expects"
    CHECK_SHELL = "look at the screen; repeat the call if the command is for the shell that reads now"
    SEND_ENTER = "send Enter alone"
    RESET_TERMINAL = "reset the terminal"
    READ_OUTPUT = "read the session's output"
    READ_SCREEN = "look at the session's screen"
    READ_STATE = "read the session's state before repeating the call"
    LIST_SESSIONS = "list the sessions"
    LIST_BLOCKS = "list the session's blocks"
    LIST_DEVICES = "list the devices of the inventory"
    OPEN_SESSION = "open a new session; the history of this one can still be read"
    OPEN_CONVERSATION = "run a command or send input, which opens the terminal"
    CLOSE_SESSIONS = "close sessions that are not used"


#: Longest message of an error, in characters: it may quote a caller's text, which can be a megabyte.
MAX_MESSAGE = 4096
#: Longest name of a field that an error quotes.
MAX_QUOTED_NAME = 100


def shortened(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters, followed by the number of omitted characters."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit} more characters)"


class PtyctlError(Exception):
    """The only exception that a Controller raises.

    Attributes:
        code: the stable error code.
        message: what failed, on what, and why. Holds no secret, and no rejected value of a secret field. A longer one than
            `MAX_MESSAGE` is shortened.
        hint: the next step, or None. A `NextStep` or plain text without the names of one interface's tools or commands.
        details: values for programs.
    """

    def __init__(
        self, code: ErrorCode, message: str, details: dict[str, Any] | None = None, *, hint: str | None = None
    ) -> None:
        self.message = shortened(message, MAX_MESSAGE)
        super().__init__(self.message)
        self.code = code
        self.hint = hint
        self.details = details or {}

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.code in RETRYABLE

    def payload(self) -> dict[str, Any]:
        """Return the error as a JSON object, without `hint` if there is none."""
        return {
            "error_code": str(self.code),
            "message": self.message,
            **({"hint": str(self.hint)} if self.hint else {}),
            "details": self.details,
            "retryable": self.retryable,
        }


def invalid(message: str, *, hint: str | None = None, **details: Any) -> PtyctlError:
    """Return INVALID_ARGUMENT: the request is wrong as it is."""
    return PtyctlError(ErrorCode.INVALID_ARGUMENT, message, details, hint=hint)


def unsupported(message: str, *, hint: str | None = None, **details: Any) -> PtyctlError:
    """Return UNSUPPORTED: the request is valid, but not for this session or this version."""
    return PtyctlError(ErrorCode.UNSUPPORTED, message, details, hint=hint)


def decode_payload(data: dict[str, Any]) -> PtyctlError:
    """Return the error of its payload."""
    return PtyctlError(ErrorCode(data["error_code"]), data["message"], data["details"], hint=data.get("hint"))

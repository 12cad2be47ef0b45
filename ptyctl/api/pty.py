"""The pty_* requests and reply: a terminal for each conversation, driven by one cursor (docs/contracts.md, pty_*)."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ptyctl.core.states import SessionState

from .errors import ErrorCode, PtyctlError
from .io import DEFAULT_WAIT_MS
from .model import MAX_REPLY_BYTES, Addressed, Command, Id, Reply, RequestPart, SystemText, Text
from .policy import PendingApproval, PolicyWarning
from .session import Dimension, LeftProcess, check_size

MatchType = Literal["substring", "regex", "prompt", "eof"]
ExpectType = Literal["substring", "regex", "prompt"]
ExitReason = Literal["prompt", "step_timeout", "eof", "cancelled"]
#: How long the call waits, at most MAX_WAIT_MS.
Timeout = Annotated[int, Field(ge=0)]
#: A byte offset into the spool: a resume_cursor, or 0 for all.
Offset = Annotated[int, Field(ge=0)]

#: Tools that create a conversation's terminal on first use. For all others an unknown conversation is not_found.
CREATING = frozenset({"pty_exec_block", "pty_exec_interactive", "pty_exec_interactive_expect", "pty_send"})

#: Tools that only read.
READING = frozenset(
    {
        "pty_wait_for", "pty_wait_prompt", "pty_read_spool", "pty_status", "blocks_since", "blocks_get", "blocks_read",
        "blocks_search", "pty_read_raw", "pty_read_screen", "pty_read_screen_deltas", "pty_screen_status",
        "pty_read_scrollback",
    }
)  # fmt: skip
#: Tools that also work on a closed terminal: reads of its history, and a repeated close.
HISTORY = (READING - {"pty_status"}) | {"pty_close"}


class PtyRequest(Addressed):
    """Base of the pty_*, blocks_* and screen requests."""

    #: Name of the tool: the name of the class in snake case.
    TOOL: ClassVar[str]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls.TOOL = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


class PtyExecBlock(PtyRequest):
    """pty_exec_block: start a command; with `wait_ms`, return its output and exit code once it has ended."""

    cmd: Command
    cwd: SystemText | None = None
    wait_ms: int | None = Field(default=None, ge=0)


class PtyExecInteractive(PtyRequest):
    """pty_exec_interactive: start an interactive program."""

    cmd: Command
    cwd: SystemText | None = None


class ExpectStep(RequestPart):
    """One step of a dialogue: wait for `expect`, then send `send` at once."""

    expect: Text
    expect_type: ExpectType = "substring"
    send: Text
    timeout_ms: int | None = Field(default=None, ge=0)
    sensitive: bool = False


class PtyExecInteractiveExpect(PtyRequest):
    """pty_exec_interactive_expect: start a program and run a whole dialogue with it."""

    cmd: Command
    cwd: SystemText | None = None
    steps: tuple[ExpectStep, ...] = Field(max_length=100, fail_fast=True)
    timeout_ms: Timeout = DEFAULT_WAIT_MS


class PtyWaitFor(PtyRequest):
    """pty_wait_for: wait for output."""

    match: Text | None = None
    match_type: MatchType = "substring"
    from_cursor: Offset
    timeout_ms: Timeout = DEFAULT_WAIT_MS

    @model_validator(mode="after")
    def _check_match(self) -> Self:
        if self.match_type in ("substring", "regex") and not self.match:
            raise ValueError(f'match_type "{self.match_type}" needs match, and it must not be empty')
        return self


class PtyWaitPrompt(PtyRequest):
    """pty_wait_prompt: wait until the shell shows its prompt and is idle."""

    from_cursor: Offset
    timeout_ms: Timeout = DEFAULT_WAIT_MS


class PtyExpectSend(PtyRequest):
    """pty_expect_send: wait for output, then send an answer in the same step."""

    expect: Text = Field(min_length=1)
    send: Text
    expect_type: ExpectType = "substring"
    from_cursor: Offset
    timeout_ms: Timeout = DEFAULT_WAIT_MS
    sensitive: bool = False


class PtySend(PtyRequest):
    """pty_send: type into the terminal, or press a named key."""

    data: Text | None = None
    key: str | None = Field(default=None, max_length=256)
    sensitive: bool = False
    approval_id: Id | None = None

    @model_validator(mode="after")
    def _check_input(self) -> Self:
        if (self.data is None) == (self.key is None):
            raise ValueError("give exactly one of data and key")
        return self


class PtyCtrlC(PtyRequest):
    """pty_ctrl_c: press Ctrl-C."""


class PtyCtrlD(PtyRequest):
    """pty_ctrl_d: press Ctrl-D."""


class PtyEnter(PtyRequest):
    """pty_enter: press Enter."""


class PtyReadSpool(PtyRequest):
    """pty_read_spool: read text from a cursor."""

    from_cursor: Offset
    max_bytes: int = Field(default=65_536, ge=1, le=MAX_REPLY_BYTES)


class PtyStatus(PtyRequest):
    """pty_status: mode, active block and cursor of the terminal."""


class PtyEndSession(PtyRequest):
    """pty_end_session: end the interactive program, by force if asked for."""

    force: bool = False


class PtyReset(PtyRequest):
    """pty_reset: replace the shell by a new one in the same session."""


class PtyResize(PtyRequest):
    """pty_resize: change the terminal's size."""

    cols: Dimension
    rows: Dimension

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        check_size(self.cols, self.rows)
        return self


class PtyClose(PtyRequest):
    """pty_close: close the terminal. Its history stays readable."""

    force: bool = False


PtyErrorCode = Literal[
    "busy", "timeout", "not_found", "invalid_argument", "locked", "lock_required", "eof", "unsupported", "io_error", "closed",
    "forbidden", "policy_denied", "approval_pending", "declined",
]  # fmt: skip

#: Names of the error codes in the pty_*, blocks_* and screen tools. Codes that are not in the table are io_error.
_PTY_CODES: dict[ErrorCode, PtyErrorCode] = {
    ErrorCode.BUSY: "busy",
    ErrorCode.NOT_FOUND: "not_found",
    ErrorCode.INVALID_ARGUMENT: "invalid_argument",
    ErrorCode.LOCKED: "locked",
    ErrorCode.LOCK_REQUIRED: "lock_required",
    ErrorCode.LOCK_LOST: "locked",
    ErrorCode.REMOTE_CLOSED: "eof",
    ErrorCode.UNSUPPORTED: "unsupported",
    ErrorCode.ALREADY_CLOSED: "closed",
    ErrorCode.FORBIDDEN: "forbidden",
    ErrorCode.POLICY_DENIED: "policy_denied",
    ErrorCode.APPROVAL_PENDING: "approval_pending",
    ErrorCode.DECLINED: "declined",
}


class PtyReplyBase(Reply):
    """Base of the replies of the pty_*, blocks_* and screen tools. An error is a reply with `ok` false.

    `notices` has an alarm about the session's storage; of the pty_* tools also the other messages for the task.
    """

    ok: bool = True
    error: PtyErrorCode | None = None
    message: str | None = None
    hint: str | None = None
    notices: list[str] | None = None


class MatchSpan(Reply):
    """Byte offsets of a match in the spool; `end` is exclusive."""

    start: int
    end: int


class PromptExtra(Reply):
    """Values that a shell reported with its prompt."""

    cwd: str | None = None
    ts: int | None = None
    exit_code: int | None = None


class PtyReply(PtyReplyBase):
    """Reply of every pty_* tool. Each tool fills the fields that docs/contracts.md lists for it."""

    policy: PolicyWarning | None = None
    approval: PendingApproval | None = None
    edited: bool | None = None
    session_id: str | None = None
    block_id: str | None = None
    seq: int | None = None
    ts: int | None = None
    ts_begin: int | None = None
    exit_reason: ExitReason | None = None
    failed_step: int | None = None
    exit_code: int | None = None
    matched: bool | None = None
    match_text: str | None = None
    match_cursor: int | None = None
    match_span: MatchSpan | None = None
    extra: PromptExtra | None = None
    sent: bool | None = None
    data: str | None = None
    data_b64: str | None = None
    omitted_bytes: int | None = None
    complete: bool | None = None
    waiting_for_input: bool | None = None
    cursor: int | None = None
    mode: str | None = None
    state: SessionState | None = None
    active_session_id: str | None = None
    active_block_id: str | None = None
    shell_id: str | None = None
    ended: Literal["prompt", "forced", "already_idle"] | None = None
    incarnation: int | None = None
    cols: int | None = None
    rows: int | None = None
    screen: str | None = None
    left_running: list[LeftProcess] | None = None
    lock_holder: str | None = None
    resume_cursor: int | None = None


_ERROR_DETAILS = ("mode", "resume_cursor", "lock_holder", "notices", "session_id", "block_id", "approval")


def encode_error(error: PtyctlError) -> PtyReply:
    """Convert an error to a reply with `ok` false. Details about mode, cursor, lock and block become fields."""
    known = {name: value for name, value in error.details.items() if name in _ERROR_DETAILS}
    if "mode" in known:
        known["active_block_id"] = known.pop("block_id", None)
    if error.code is ErrorCode.APPROVAL_PENDING and "approval_id" in error.details:
        known["approval"] = PendingApproval.model_validate(
            {name: value for name, value in error.details.items() if name in PendingApproval.model_fields}
        )
    return PtyReply(ok=False, error=_PTY_CODES.get(error.code, "io_error"), message=error.message, hint=error.hint, **known)


def decode_error(reply: PtyReplyBase) -> PtyctlError:
    """Convert a reply with `ok` false to the error that it reports."""
    codes = {name: code for code, name in reversed(_PTY_CODES.items())}
    code = codes.get(reply.error, ErrorCode.IO_ERROR) if reply.error else ErrorCode.IO_ERROR
    details = {name: value for name, value in reply.payload().items() if name in _ERROR_DETAILS}
    details |= details.pop("approval", {})
    return PtyctlError(code, reply.message or str(reply.error), details, hint=reply.hint)

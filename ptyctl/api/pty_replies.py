"""What pty_* and blocks_* answer: always `ok`; an error is `{ok: false, error, message, ...}` (CONTRACTS)."""

from __future__ import annotations

from typing import Literal

from .blocks import Block
from .errors import ErrorCode, PtyctlError
from .model import Reply

PtyErrorCode = Literal[
    "busy", "timeout", "not_found", "invalid_argument", "locked", "lock_required", "eof", "unsupported", "io_error", "closed"
]
ExitReason = Literal["prompt", "step_timeout", "eof", "cancelled"]

#: How the codes of the ptyctl surface are called on this one.
_CODES: dict[ErrorCode, PtyErrorCode] = {
    ErrorCode.BUSY: "busy",
    ErrorCode.NOT_FOUND: "not_found",
    ErrorCode.INVALID_ARGUMENT: "invalid_argument",
    ErrorCode.LOCKED: "locked",
    ErrorCode.LOCK_REQUIRED: "lock_required",
    ErrorCode.LOCK_LOST: "locked",
    ErrorCode.REMOTE_CLOSED: "eof",
    ErrorCode.UNSUPPORTED: "unsupported",
    ErrorCode.ALREADY_CLOSED: "closed",
}


class Span(Reply):
    """Byte offsets into the spool, the end exclusive."""

    start: int
    end: int


class PromptExtra(Reply):
    """What the shell said with its prompt."""

    cwd: str | None = None
    ts: int | None = None
    exit_code: int | None = None


class PtyReply(Reply):
    """One shape for the surface; each tool fills the fields that CONTRACTS names for it."""

    ok: bool = True
    error: PtyErrorCode | None = None
    message: str | None = None
    hint: str | None = None
    notices: list[str] | None = None
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
    match_span: Span | None = None
    extra: PromptExtra | None = None
    sent: bool | None = None
    data: str | None = None
    data_b64: str | None = None
    cursor: int | None = None
    mode: str | None = None
    active_session_id: str | None = None
    active_block_id: str | None = None
    shell_id: str | None = None
    ended: Literal["prompt", "forced", "already_idle"] | None = None
    incarnation: int | None = None
    cols: int | None = None
    rows: int | None = None
    screen: str | None = None
    lock_holder: str | None = None
    resume_cursor: int | None = None


class Hit(Reply):
    """A line that matches. `line` counts from 1 within the block, `offset` is the match's place in the spool."""

    block_id: str
    seq: int
    line: int
    offset: int
    text: str


class BlocksReply(Reply):
    ok: bool = True
    error: PtyErrorCode | None = None
    message: str | None = None
    hint: str | None = None
    items: list[Block] | None = None
    block: Block | None = None
    data: str | None = None
    data_b64: str | None = None
    offset: int | None = None
    resume_offset: int | None = None
    size: int | None = None
    complete: bool | None = None
    hits: list[Hit] | None = None
    truncated: bool | None = None
    resume_cursor: int | None = None


_TOLD_OF_ERRORS = ("mode", "resume_cursor", "lock_holder", "notices", "session_id", "block_id")


def refused(error: PtyctlError) -> PtyReply:
    """An error as this surface tells it; what its details say of a cursor or a mode goes with it."""
    known = {name: value for name, value in error.details.items() if name in _TOLD_OF_ERRORS}
    if "mode" in known:
        known["active_block_id"] = known.pop("block_id", None)
    return PtyReply(ok=False, error=_CODES.get(error.code, "io_error"), message=error.message, hint=error.hint, **known)


def raised(reply: Reply, error: PtyErrorCode | None, message: str | None) -> PtyctlError:
    """The other way round: an answer that is an error, for whoever wants to have it raised."""
    codes = {name: code for code, name in reversed(_CODES.items())}
    details = {name: value for name, value in reply.payload().items() if name in _TOLD_OF_ERRORS}
    code = codes.get(error, ErrorCode.IO_ERROR) if error else ErrorCode.IO_ERROR
    return PtyctlError(code, message or str(error), details, hint=getattr(reply, "hint", None))

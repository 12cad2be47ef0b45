"""ptyctl_session_exec: run a command, or wait again for a running one (docs/contracts.md, ptyctl_session_exec)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .io import MAX_WAIT_MS
from .model import (
    MAX_PATTERNS,
    MAX_REPLY_BYTES,
    Addressed,
    Command,
    Cursor,
    Id,
    Reply,
    RequestPart,
    SystemText,
    Text,
    Unlisted,
)
from .policy import PendingApproval, PolicyWarning
from .session import Expect

DEFAULT_EXEC_TIMEOUT_MS = 15_000
DEFAULT_MAX_OUTPUT_BYTES = 32_768

DoneReason = Literal[
    "marks", "marker", "prompt", "idle", "question", "until_regex", "until_idle", "eof", "cancelled", "timeout", "approval"
]


class RcMode(RequestPart):
    """Whether a printed marker reports the exit code. `auto`: if the far end was detected to be a POSIX shell."""

    enabled: Literal["auto", True, False] = "auto"
    marker_prefix: str | None = Field(default=None, min_length=1, max_length=64)
    marker_suffix: str | None = Field(default=None, min_length=1, max_length=64)


class Response(RequestPart):
    """An automatic answer: `send` is typed each time the output matches `match`."""

    match: str = Field(min_length=1)
    send: Text
    sensitive: bool = False


class ExecRequest(Addressed):
    """Run `cmd`, or the configuration lines `lines`, or wait again for the run `block_id`."""

    cmd: Command | None = None
    lines: tuple[SystemText, ...] | None = Field(
        default=None, min_length=1, fail_fast=True, description="config lines, each checked"
    )
    block_id: Id | None = None
    approval_id: Annotated[Id | None, Unlisted] = None
    return_pending: Annotated[bool, Unlisted] = False
    not_after: Annotated[int | None, Unlisted] = Field(default=None, description="epoch ms: run nothing if it is later")
    timeout_ms: int = Field(default=DEFAULT_EXEC_TIMEOUT_MS, ge=0, description=f"at most {MAX_WAIT_MS}")
    until_idle_ms: int | None = Field(default=None, ge=1)
    until_regex: str | None = None
    rc_mode: Annotated[RcMode | None, Unlisted] = None
    expect: Annotated[Expect | None, Unlisted] = None
    responses: tuple[Response, ...] | None = Field(
        default=None, max_length=MAX_PATTERNS, fail_fast=True, description="sent whenever match appears"
    )
    mode: Id | None = None
    on_error: Literal["stop", "continue"] | None = None
    parse: bool | None = None
    max_output_bytes: int = Field(default=DEFAULT_MAX_OUTPUT_BYTES, ge=256, le=MAX_REPLY_BYTES)
    cancel_after_ms: Annotated[int | None, Unlisted] = Field(default=None, ge=1)
    grep: str | None = Field(default=None, description="return only matching lines (RE2)")
    grep_context: int = Field(default=0, ge=0, le=100, description="lines around each")
    from_cursor: Cursor | None = Field(default=None, description="with block_id: next_cursor; returns only what is new")

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if (self.cmd is not None) + (self.lines is not None) + (self.block_id is not None) != 1:
            given = [name for name in ("cmd", "lines", "block_id") if getattr(self, name) is not None]
            raise ValueError(f"give exactly one of cmd, lines and block_id, not {' and '.join(given) or 'none'}")
        if self.mode is not None and self.block_id is not None:
            raise ValueError("mode goes with cmd or lines")
        if self.from_cursor is not None and self.block_id is None:
            raise ValueError("from_cursor goes with block_id")
        if self.grep is None and self.grep_context:
            raise ValueError("grep_context goes with grep")
        if self.parse and (self.grep is not None or self.from_cursor is not None):
            raise ValueError("parse needs the whole output, without grep and from_cursor")
        if self.on_error is not None and self.lines is None:
            raise ValueError("on_error goes with lines")
        if self.until_idle_ms is not None and self.until_idle_ms > min(self.timeout_ms, MAX_WAIT_MS):
            raise ValueError("until_idle_ms is larger than timeout_ms: it could never be reached")
        return self


class FailedLine(Reply):
    """A configuration line that the device rejected. Numbers count from 1; `said` are the device's error lines."""

    number: int
    line: str
    said: list[str]


class ExecReply(Reply):
    """Result of a run, or its state at the timeout.

    Attributes:
        cursor: start of the run's text in the spool; `next_cursor` is its end.
        duration_ms: time since the command was sent.
        timed_out: the run continues; wait again with `block_id`. `message` reports if nothing was typed yet.
        grep_count: number of lines that match `grep`.
        approval: what the command waits for.
        edited: the approver has edited the command; `cmd` is what was run.
    """

    stdout: str
    stderr: str = ""
    exit_code: int | None = None
    exit_code_reason: str | None = None
    done_reason: DoneReason
    prompt_detected: bool = False
    error_hints: list[str] = Field(default_factory=list)
    timed_out: bool = False
    waiting_for_input: bool | None = None
    duration_ms: int
    block_id: str
    cursor: str
    next_cursor: str
    output_truncated: bool = False
    omitted_bytes: int | None = None
    grep_count: int | None = None
    mode: str | None = None
    pages: int | None = None
    parsed: list[dict[str, object]] | None = None
    template: str | None = None
    message: str | None = None
    failed_line: str | None = None
    failed_lines: list[FailedLine] | None = None
    policy: PolicyWarning | None = None
    approval: PendingApproval | None = None
    edited: bool | None = None
    cmd: str | None = None
    notices: list[str] | None = None

    def payload(self) -> dict[str, object]:
        """Return the reply as a JSON object; `exit_code` is always present, and null if there is none."""
        return {"exit_code": None, **super().payload()}

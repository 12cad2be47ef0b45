"""ptyctl_session_exec: run a command, or wait again for one (CONTRACTS, ptyctl_session_exec)."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from .io import MAX_WAIT_MS
from .model import Id, Reply, Request, Text, Value, Word
from .session import Expect

DEFAULT_EXEC_TIMEOUT_MS = 15_000
DEFAULT_MAX_OUTPUT_BYTES = 32_768

DoneReason = Literal[
    "marks", "marker", "prompt", "idle", "question", "until_regex", "until_idle", "eof", "cancelled", "timeout"
]


class RcMode(Value):
    """Exit codes by a marker. `auto`: wherever a POSIX shell was shown to be."""

    enabled: Literal["auto", True, False] = "auto"
    marker_prefix: str | None = Field(None, min_length=1, max_length=64)
    marker_suffix: str | None = Field(None, min_length=1, max_length=64)


class Response(Value):
    """An answer that is sent once each time `match` appears while the run waits."""

    match: str = Field(min_length=1)
    send: Text
    sensitive: bool = False


class ExecRequest(Request):
    session_id: Id
    cmd: Word | None = None
    lines: tuple[Word, ...] | None = Field(None, min_length=1, description="config lines, each checked")
    block_id: Id | None = Field(None, description="wait again for a run that goes on")
    timeout_ms: int = Field(DEFAULT_EXEC_TIMEOUT_MS, ge=0, description=f"of this call, at most {MAX_WAIT_MS}")
    until_idle_ms: int | None = Field(None, ge=1)
    until_regex: str | None = None
    rc_mode: RcMode | None = None
    expect: Expect | None = None
    responses: tuple[Response, ...] | None = Field(None, description="each sent whenever its match appears")
    mode: Id | None = None
    on_error: Literal["stop", "continue"] | None = None
    parse: bool | None = None
    max_output_bytes: int = Field(DEFAULT_MAX_OUTPUT_BYTES, ge=256)
    cancel_after_ms: int | None = Field(None, ge=1)
    task_id: Id | None = None

    @model_validator(mode="after")
    def _coupled(self) -> Self:
        given = [name for name in ("cmd", "lines", "block_id") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of cmd, lines and block_id, not {' and '.join(given) or 'none'}")
        if self.mode is not None and self.block_id is not None:
            raise ValueError("mode goes with cmd or lines")
        if self.on_error is not None and self.lines is None:
            raise ValueError("on_error goes with lines")
        if self.until_idle_ms is not None and self.until_idle_ms > min(self.timeout_ms, MAX_WAIT_MS):
            raise ValueError("until_idle_ms is larger than timeout_ms: it could never be reached")
        return self


class FailedLine(Reply):
    """A line that the device refused: the first is number 1; `said` are the lines that say so."""

    number: int
    line: str
    said: list[str]


class ExecReply(Reply):
    """`cursor` and `next_cursor` enclose the run's text in the spool; `duration_ms` counts from the send."""

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
    mode: str | None = None
    pages: int | None = None
    parsed: list[dict[str, object]] | None = None
    template: str | None = None
    message: str | None = None
    failed_line: str | None = None
    failed_lines: list[FailedLine] | None = None
    notices: list[str] | None = None

    def payload(self) -> dict[str, object]:
        """As every reply, but `exit_code` is sent as null where there is none: the spec names it."""
        return {"exit_code": None, **super().payload()}

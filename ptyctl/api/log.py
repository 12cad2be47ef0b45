"""What a session has printed, line by line, each with its time: a console's log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .model import Id, Reply, Request


class LogRequest(Request):
    """`from_offset` is a byte offset into the raw output, as `resume_offset` gives it."""

    session_id: Id
    from_offset: int = Field(0, ge=0)
    limit: int = Field(1000, ge=1, le=10_000, description="lines")
    task_id: Id | None = None


class LogLine(Reply):
    """line: one that has ended, at `ts` (epoch ms, at most 50 ms early). open: the last one, which has not ended yet.
    incarnation: another terminal begins here, and `text` says which."""

    kind: Literal["line", "open", "incarnation"]
    ts: int
    text: str


class LogReply(Reply):
    """Read on from `resume_offset`, where an open line stands again; `complete`: nothing more is there now."""

    session_id: str
    lines: list[LogLine]
    resume_offset: int
    complete: bool

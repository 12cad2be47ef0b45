"""Calls on recorded data: the recording of one session, and a search over the commands of all sessions."""

from __future__ import annotations

from pydantic import Field

from .model import MAX_REPLY_BYTES, Id, Reply, Request, Text
from .session import BlockStatus

#: Largest number of hits of a search, and of lines of one hit.
MAX_HITS = 1000
MAX_HIT_LINES = 20


class RecordingRequest(Request):
    """Read a session's raw output with its times. `from_offset` is a byte offset: a `resume_offset`, or 0."""

    session_id: Id
    from_offset: int = Field(default=0, ge=0)
    max_bytes: int = Field(default=262_144, ge=1, le=MAX_REPLY_BYTES)
    task_id: Id | None = None


class RecordingEvent(Reply):
    """Output, or a change of the terminal, at `ts` (epoch ms; at most 50 ms early).

    Attributes:
        offset: raw offset after the output, or at which the terminal changed.
        cols, rows: the terminal's new size.
        incarnation: number of the connection that begins here, with a new terminal.
    """

    offset: int
    ts: int
    data_b64: str | None = None
    cols: int | None = None
    rows: int | None = None
    incarnation: int | None = None


class RecordingReply(Reply):
    """Events up to `resume_offset`, in order. `complete`: whether these are all events so far."""

    session_id: str
    events: list[RecordingEvent]
    resume_offset: int
    complete: bool


class SearchRequest(Request):
    """Search the commands of all sessions and their output, the newest session and its newest command first.

    Attributes:
        query: text, or an RE2 pattern with `regex`; without it all commands that the other fields select are found.
        device: name of a device or console; may be a glob such as core-*.
        exit_code: of the command; `failed`: whether it failed, its exit code is not 0, or the device reported an error.
        since_ts, until_ts: when the command ran (epoch ms).
        from_cursor: `resume_cursor` of an earlier reply.
    """

    query: Text | None = Field(default=None, min_length=1)
    regex: bool = False
    session_id: Id | None = None
    device: Text | None = None
    exit_code: int | None = None
    failed: bool | None = None
    since_ts: int | None = None
    until_ts: int | None = None
    limit: int = Field(default=50, ge=1, le=MAX_HITS)
    from_cursor: Text | None = Field(default=None, max_length=300)
    task_id: Id | None = None


class HitLine(Reply):
    """A matching line: its number in the block, from 1, the offset of the match in the spool, and its text."""

    line: int
    offset: int
    text: str


class SearchHit(Reply):
    """A command that was found. Times are epoch ms.

    Attributes:
        cmd: its first 1,000 characters.
        lines: the first matching lines of its output, at most 20.
        more_lines: whether more lines match, or the time of the call ended within the output.
    """

    session_id: str
    device: str | None = None
    device_id: str | None = None
    block_id: str
    cmd: str
    status: BlockStatus
    exit_code: int | None = None
    error_hints: list[str] | None = None
    mode: str | None = None
    task_id: str | None = None
    ts_begin: int
    ts_end: int | None = None
    lines: list[HitLine]
    more_lines: bool | None = None


class SearchReply(Reply):
    """Hits, and `resume_cursor` if the limit or the time for one call ended the search before its end."""

    hits: list[SearchHit]
    resume_cursor: str | None = None

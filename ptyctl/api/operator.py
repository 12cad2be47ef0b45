"""Calls for people and their programs that no MCP tool offers: watch, notify, log, gc and audit."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ptyctl.core.states import SessionState, TerminalMode

from .model import Id, Reply, Request, Text


class WatchRequest(Request):
    """Follow a session. Without `from_offset` the first item paints the current screen.

    Attributes:
        max_behind: paint the screen again (another `begin`) instead of output that is more bytes behind, and after a resize or
            a new connection. A `from_offset` that cannot be resumed counts as absent.
        scrollback: number of lines above the screen that the painting includes, unless it replaces much output.
        tick_ms: repeat `terminal` at this interval, so that a watcher notices a connection that delivers nothing.
    """

    session_id: Id
    from_offset: int | None = Field(default=None, ge=0, description="a byte offset into the raw output")
    max_behind: int | None = Field(default=None, ge=0)
    scrollback: int = Field(default=0, ge=0)
    tick_ms: int | None = Field(default=None, ge=100)
    task_id: Id | None = None


class WatchItem(Reply):
    """One item of a watch, in order of occurrence.

    Attributes:
        kind: `begin`: the terminal's current state; `data_b64` paints its screen on a blank terminal.
            `output`: received bytes; `raw_offset` is the offset after them.
            `terminal`: size, state, mode or lock changed, or a tick; all of them are given.
            `event`: a row of events.jsonl. `end`: the last item.
        ts: of `begin` and `terminal`, with ticks: the clock of the session's server (epoch ms), to which `not_after` of a write
            refers.
    """

    kind: Literal["begin", "output", "terminal", "event", "end"]
    raw_offset: int | None = None
    data_b64: str | None = None
    cols: int | None = None
    rows: int | None = None
    state: SessionState | None = None
    mode: TerminalMode | None = None
    lock_holder: str | None = None
    lock_principal: str | None = None
    lock_expires_at: int | None = None
    ts: int | None = None
    event: dict[str, Any] | None = None


class NotifyRequest(Request):
    """Send a message to all users of a session, as a notice. `sender` is a display name."""

    session_id: Id
    message: Text = Field(min_length=1, max_length=2000)
    sender: Text | None = Field(default=None, min_length=1, max_length=100)
    task_id: Id | None = None


class NotifyReply(Reply):
    """Tasks that read now or did so within the last minute. The lock's holder and later users get the notice too."""

    session_id: str
    observers: list[str]


class LogRequest(Request):
    """Read a session's output line by line. `from_offset` is a byte offset into the raw output: a `resume_offset`, or 0."""

    session_id: Id
    from_offset: int = Field(default=0, ge=0)
    limit: int = Field(default=1000, ge=1, le=10_000, description="lines")
    task_id: Id | None = None


class LogLine(Reply):
    """One line with its time.

    Attributes:
        kind: `line`: a complete line. `open`: the last line, not complete yet.
            `incarnation`: a new connection begins here, described by `text`.
        ts: epoch ms; at most 50 ms early.
    """

    kind: Literal["line", "open", "incarnation"]
    ts: int
    text: str


class LogReply(Reply):
    """Lines up to `resume_offset`, which repeats an incomplete line. `complete`: whether these are all lines so far."""

    session_id: str
    lines: list[LogLine]
    resume_offset: int
    complete: bool


class GcRequest(Request):
    """Delete old transcripts. Limits that are not given come from the settings; 0 is no limit; `dry_run` deletes nothing."""

    max_age_days: float | None = Field(default=None, ge=0)
    max_bytes: int | None = Field(default=None, ge=0)
    dry_run: bool = False


class GcEntry(Reply):
    """A deleted session: too old (`age`), or among the oldest when the total was too large (`size`). Times are epoch ms."""

    session_id: str
    why: Literal["age", "size"]
    bytes: int
    last_used_at: int


class GcReply(Reply):
    """Deleted sessions, and the number and size of those that remain, live ones included."""

    removed: list[GcEntry]
    removed_bytes: int
    kept: int
    kept_bytes: int
    dry_run: bool


class AuditRequest(Request):
    """Read or verify the audit log. The newest rows that match all given fields are returned; times are epoch ms."""

    action: Literal["list", "verify"] = "list"
    since: int | None = Field(default=None, ge=0)
    until: int | None = Field(default=None, ge=0)
    event: Text | None = None
    session_id: Id | None = None
    device: Text | None = Field(default=None, description="a name, or a glob such as core-*")
    principal: Text | None = None
    task_id: Id | None = None
    limit: int = Field(default=1000, ge=1, le=10_000)


class AuditFault(Reply):
    """The first row of the audit log that does not fit: its file, its line from 1, and why."""

    file: str
    line: int
    why: str


class AuditNode(Reply):
    """The chain of one node in the fleet's stream: `verified` rows fit, and `head` is the hash of the last one."""

    node: str
    verified: int
    head: str
    first_bad: AuditFault | None = None


class AuditReply(Reply):
    """Rows, oldest first; or the result of a verification: `verified` rows fit, and `head` is the hash of the last one.

    `truncated`: there are older rows that match, and the request's limit or the size of a reply (1 MiB) ended the list.
    `nodes`: in a fleet, the results of all nodes' chains in its stream; `first_bad` may be of another node.
    `notices`: in a fleet, which nodes are missing, and why: this node does not reach its servers.
    """

    rows: list[dict[str, Any]]
    truncated: bool | None = None
    verified: int | None = None
    head: str | None = None
    first_bad: AuditFault | None = None
    nodes: list[AuditNode] | None = None
    notices: list[str] | None = None

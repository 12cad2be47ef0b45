"""Watching a session as it happens: what a person's terminal, a `tail -f` or a page needs (design, section 8)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .model import Id, Reply, Request
from .session import Mode, State


class WatchRequest(Request):
    """Without `from_offset` it begins with the present screen, painted, and goes on from there."""

    session_id: Id
    from_offset: int | None = Field(None, ge=0, description="a byte offset into the raw output")
    task_id: Id | None = None


class Watched(Reply):
    """One thing that happened, in the order of happening.

    begin: the terminal as it is; `data_b64` paints its screen on a fresh one. output: raw bytes, as they came; `raw_offset` is
    the offset behind them. terminal: its size, state, mode or lock have changed, and stand here. event: a row of events.jsonl.
    end: nothing more will come.
    """

    kind: Literal["begin", "output", "terminal", "event", "end"]
    raw_offset: int | None = None
    data_b64: str | None = None
    cols: int | None = None
    rows: int | None = None
    state: State | None = None
    mode: Mode | None = None
    lock_holder: str | None = None
    lock_expires_at: int | None = None
    event: dict[str, Any] | None = None

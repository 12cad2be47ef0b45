"""Retention: which transcripts go, and what is left (docs/files.md). No tool of agents: history is the user's to throw away."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .model import Reply, Request


class GcRequest(Request):
    """Limits that are not given are those of the settings; 0 is none. With `dry_run` it is only said what would go."""

    max_age_days: float | None = Field(None, ge=0)
    max_bytes: int | None = Field(None, ge=0)
    dry_run: bool = False


class GcEntry(Reply):
    """A session that went, since it was too old, or one of the oldest when there was too much. Times are epoch ms."""

    session_id: str
    why: Literal["age", "size"]
    bytes: int
    last_used_at: int


class GcReply(Reply):
    """`kept` sessions are left, live ones with them, and take `kept_bytes` on disk."""

    removed: list[GcEntry]
    removed_bytes: int
    kept: int
    kept_bytes: int
    dry_run: bool

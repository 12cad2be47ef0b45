"""A message from a person to all who use a session: told once to each task, as a notice (CONTRACTS, notices)."""

from __future__ import annotations

from pydantic import Field

from .model import Id, Reply, Request, Text


class NotifyRequest(Request):
    """`sender` is whom it comes from, in words for those who read it."""

    session_id: Id
    message: Text = Field(min_length=1, max_length=2000)
    sender: Text | None = Field(None, min_length=1, max_length=100)
    task_id: Id | None = None


class NotifyReply(Reply):
    """`observers` read it now or have within the last minute; the lock's holder and later comers are told too."""

    session_id: str
    observers: list[str]

"""Calls on approval requests: texts that the policy holds back until a person answers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .model import Cursor, Id, Reply, Request, Text, Unlisted, check_fields

ApprovalStatus = Literal["pending", "approved", "declined", "expired", "withdrawn", "stale"]
#: How an answer was given.
Via = Literal["cli", "web", "elicitation", "library"]

#: Fields of each action: required, then optional.
_FIELDS = {
    "list": ("", "session_id state limit"),
    "get": ("approval_id", ""),
    "watch": ("", "since timeout_ms"),
    "approve": ("approval_id", "comment text for_s keys_s via"),
    "decline": ("approval_id", "comment via"),
    "revoke": ("approval_id", "comment via"),
}


class ApprovalsQuery(Request):
    """List approval requests, or get one, with the screen as it was. Without the role approver: the caller's own requests."""

    action: Literal["list", "get"] = "list"
    approval_id: Id | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_fields(self, self.action, "approval_id" if self.action == "get" else "", "")
        return self

    def as_request(self) -> ApprovalsRequest:
        """Return the Controller's request."""
        return ApprovalsRequest(**{name: getattr(self, name) for name in self.model_fields_set})


class ApprovalsRequest(Request):
    """List, get, watch, or answer approval requests.

    Attributes:
        since: the cursor of an earlier `watch`; without it all requests that can be answered or revoked are changes.
        timeout_ms: how long `watch` waits for a change.
        text: approves this text instead of the requested one.
        for_s: also approves the same command on the same session for this time (seconds).
        keys_s: also lets the requester type into the running program for this time (seconds).
    """

    action: Literal["list", "get", "watch", "approve", "decline", "revoke"] = "list"
    approval_id: Id | None = None
    session_id: Id | None = None
    state: ApprovalStatus | None = None
    limit: int = Field(default=100, ge=1, le=1000)
    since: Cursor | None = None
    timeout_ms: int = Field(default=0, ge=0, le=60_000)
    comment: Text | None = Field(default=None, min_length=1, max_length=2000)
    text: Text | None = None
    for_s: float | None = Field(default=None, gt=0, le=86_400)
    keys_s: float | None = Field(default=None, gt=0, le=3600)
    via: Annotated[Via, Unlisted] = "library"

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_fields(self, self.action, *_FIELDS[self.action])
        return self


class ApprovalScope(Reply):
    """Standing permissions of an approval, each until a time in epoch ms: the same command again, keys for the program."""

    same_until: int | None = None
    keys_until: int | None = None


class ApprovalEntry(Reply):
    """One approval request. Times are epoch ms.

    Attributes:
        text: the requested text; `approved_text`: the approver's version of it, if `edited`.
        canonical: the form of the text that the policy judged; `rules`: those that hold it back.
        marks: the parts of `text` that the rules are about, each as begin and end in characters; for a long text only after
            a `get`.
        screen: the rows at the time of the request; only `get` returns them.
        used: whether the approved text was typed: an approval is valid once.
        comment: of the person who answered, or why the request ended.
        scope: standing approvals that are still valid.
    """

    approval_id: str
    state: ApprovalStatus
    used: bool | None = None
    created_at: int
    expires_at: int
    session_id: str
    device: str | None = None
    platform: str | None = None
    mode: str | None = None
    principal: str
    task_id: str | None = None
    block_id: str | None = None
    text: str
    canonical: str
    rules: list[str]
    reason: str
    marks: list[Annotated[list[int], Field(min_length=2, max_length=2)]] | None = None
    screen: list[str] | None = None
    edited: bool | None = None
    approved_text: str | None = None
    decided_by: str | None = None
    decided_at: int | None = None
    via: Via | None = None
    comment: str | None = None
    scope: ApprovalScope | None = None


class ApprovalsReply(Reply):
    """`approvals` of a list or a watch, oldest first; `approval` of the other actions.

    Attributes:
        cursor: `since` of the next watch.
        truncated: there are older requests that match, and the limit or the size of a reply (4 MiB) ended the list.
        answerable: whether somebody may answer soon: an approver watches, or the server runs a notify command.
        problem: why the server's notify command failed when it ran last.
    """

    answerable: bool
    approvals: list[ApprovalEntry] | None = None
    approval: ApprovalEntry | None = None
    cursor: str | None = None
    truncated: bool | None = None
    problem: str | None = None

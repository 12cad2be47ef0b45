"""What the policy decided about input, in the replies of the calls that send it."""

from __future__ import annotations

from typing import Literal

from .model import Reply


class PolicyWarning(Reply):
    """The text was typed, and rules of the policy warn of it."""

    decision: Literal["warn"] = "warn"
    rules: list[str]
    reason: str


class PendingApproval(Reply):
    """A person must approve the text before it is typed; at `expires_at` (epoch ms) it is declined.

    `elicitation`: the person at the requester's MCP client may answer.
    """

    approval_id: str
    reason: str
    rules: list[str]
    expires_at: int
    elicitation: bool | None = None

"""The policy in force: judge a text by it, show it, or load it again (docs/policy.md); its decisions in replies."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from .model import Id, Reply, Request, Text, check_fields


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


#: The fields of each action: required and optional ones.
_ACTIONS = {
    "check": ("text", "session_id device platform protocol mode kind principal where"),
    "show": ("", ""),
    "reload": ("", ""),
}


class PolicyRequest(Request):
    """Judge a text without typing it (`check`), show the policy in force, or load it again.

    A check is for a session, a device of the inventory, or a platform. `kind`, `principal` and `task_id` are by default those
    of the caller, `mode` that of the session or the platform's mode for running commands. `where` is by default where input of
    the session goes now, otherwise the prompt.
    """

    action: Literal["check", "show", "reload"]
    text: Text | None = Field(default=None, max_length=1_000_000)
    session_id: Id | None = None
    device: Id | None = None
    platform: Id | None = None
    protocol: Id | None = None
    mode: Id | None = None
    kind: Literal["person", "agent"] | None = None
    principal: Id | None = None
    where: Literal["prompt", "program"] | None = None
    task_id: Id | None = None

    @model_validator(mode="after")
    def _check_action(self) -> Self:
        check_fields(self, self.action, *_ACTIONS[self.action])
        if self.session_id is not None and (self.device or self.platform or self.protocol):
            raise ValueError("session_id takes no device, platform or protocol: the session has its own")
        return self


class PolicyRule(Reply):
    """A rule of the policy.

    Attributes:
        source, line: the preset or file that it is from.
        definition: the other fields, as in the file.
    """

    id: str
    decision: str
    reason: str
    source: str
    line: int | None = None
    definition: dict[str, Any]


class PolicyReply(Reply):
    """The policy that is in force, and for a check the verdict.

    Attributes:
        policy, sha256: name and SHA-256 of the preset or the files that are in force; without a hash, nothing may be typed.
        problem: why the last load failed.
        rules: ids of the rules that matched; for the other actions those of all rules.
        rule_details: those rules.
        mode, platform, where: those that the text was judged for.
        defaults: decisions where no rule decides.
    """

    policy: str
    sha256: str | None = None
    problem: str | None = None
    decision: str | None = None
    rules: list[str] | None = None
    reason: str | None = None
    canonical: str | None = None
    mode: str | None = None
    platform: str | None = None
    where: Literal["prompt", "program"] | None = None
    rule_details: list[PolicyRule] | None = None
    defaults: dict[str, str] | None = None

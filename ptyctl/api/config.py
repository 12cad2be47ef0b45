"""ptyctl_session_config: size, patterns, mode and pace of a session (docs/contracts.md, ptyctl_session_config)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .model import Addressed, Id, Reply, Unlisted, check_fields
from .policy import PolicyWarning
from .session import Dimension, Expect, Pace, check_size

ConfigAction = Literal["resize", "expect", "get", "mode", "save", "pace"]
#: The fields of each action: required and optional ones.
_ACTIONS = {
    "resize": ("cols rows", "while_locked"),
    "expect": ("expect", ""),
    "get": ("", ""),
    "mode": ("mode", ""),
    "save": ("", ""),
    "pace": ("", "chars_per_s line_delay_ms"),
}


class ConfigRequest(Addressed):
    """Change one setting of a session, or get them all.

    Attributes:
        while_locked: of a size: it lasts until the lock of the session ends, which restores the size before it.
    """

    action: ConfigAction
    cols: Dimension | None = None
    rows: Dimension | None = None
    while_locked: Annotated[bool, Unlisted] = False
    expect: Expect | None = None
    mode: Id | None = None
    chars_per_s: float | None = Field(default=None, gt=0)
    line_delay_ms: int | None = Field(default=None, ge=0, le=60_000)

    @model_validator(mode="after")
    def _check_action(self) -> Self:
        required, optional = _ACTIONS[self.action]
        check_fields(self, self.action, required, f"session_id conversation_id client_id {optional}")
        check_size(self.cols or 1, self.rows or 1)
        return self


class ConfigReply(Reply):
    """Current settings. `mode` is the device's current mode; `stdout` is the device's output of `save`.

    `policy`: rules warn of a command of a mode change or of `save`.
    """

    action: ConfigAction
    expect: Expect | None = None
    cols: int | None = None
    rows: int | None = None
    platform: str | None = None
    mode: str | None = None
    stdout: str | None = None
    pace: Pace | None = None
    policy: PolicyWarning | None = None
    notices: list[str] | None = None


class ResizeReply(Reply):
    """Reply of `resize`: the new size."""

    cols: int
    rows: int
    notices: list[str] | None = None

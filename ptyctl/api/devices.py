"""The devices of the inventory, and the check of one of them. No reply has a secret, or the place of one."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from .model import Id, Reply, Request, Text, check_fields


class DevicesRequest(Request):
    """List the devices of the inventory, or check step by step whether one of them can be opened."""

    action: Literal["list", "doctor"] = "list"
    device: Text | None = Field(default=None, min_length=1, max_length=256)
    task_id: Id | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_fields(self, self.action, "device" if self.action == "doctor" else "", "")
        return self


class DeviceEntry(Reply):
    """A device. `console`: the line of a console server that it is at."""

    device: str
    protocol: str | None = None
    host: str | None = None
    port: int | None = None
    console: str | None = None
    device_id: str | None = None
    platform: str | None = None
    session_type: str | None = None
    username: str | None = None
    jump: list[str] | None = None
    groups: list[str] | None = None


class DeviceCheck(Reply):
    """The outcome of one step: what was found or what failed, and the next step after a failure."""

    name: str
    ok: bool
    result: str
    hint: str | None = None


class DevicesReply(Reply):
    """`devices` of a list; `checks` of a check, the first failure being the last one of the connection."""

    devices: list[DeviceEntry] | None = None
    checks: list[DeviceCheck] | None = None

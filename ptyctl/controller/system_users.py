"""The users of a system daemon: the table `access` of the configuration, and the principal of a user of this machine."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ptyctl.accounts import group_name, login_name
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import user


class UserRights(BaseModel):
    """The rights of a user or of the members of a group. A string in the configuration is the role.

    Attributes:
        devices: globs; None means all devices.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Role
    kind: Kind = Kind.PERSON
    devices: Annotated[tuple[str, ...] | None, Field(min_length=1)] = None

    @model_validator(mode="before")
    @classmethod
    def _from_role(cls, value: Any) -> Any:
        return {"role": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.role is Role.APPROVER and self.kind is Kind.AGENT:
            raise ValueError("an agent cannot have the role approver")
        return self


class AccessSettings(BaseModel):
    """The table `access`.

    Attributes:
        users: by login name or uid.
        groups: by name or gid. A user in several gets the grant of the first one in the table.
        local_sessions: whether clients may use the daemon's own machine as the daemon's user: local shells, and files.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    users: Mapping[str, UserRights] = Field(default_factory=dict)
    groups: Mapping[str, UserRights] = Field(default_factory=dict)
    local_sessions: bool = False


def find_principal(access: AccessSettings, uid: int, gid: int) -> Principal:
    """Return the principal of a process of this machine. Reads the machine's databases of users and groups.

    Raises:
        PtyctlError: FORBIDDEN if neither the user nor one of its groups is in the table.
    """
    name = login_name(uid)
    granted = _find(access.users, _keys(uid, name))
    if granted is None and access.groups:
        groups = _groups_of(uid, gid)
        granted = _find(access.groups, set().union(*(_keys(group, group_name(group)) for group in groups)))
    if granted is not None:
        return Principal(name, granted.kind, granted.role, granted.devices or ())
    if uid == os.geteuid():
        return user()
    raise PtyctlError(
        ErrorCode.FORBIDDEN,
        f"the user {name} (uid {uid}) may not use this daemon",
        {"uid": uid},
        hint=f'the administrator of the daemon adds to its configuration, in [access.users]: {json.dumps(name)} = "operator"',
    )


def _find(rights: Mapping[str, UserRights], keys: set[str]) -> UserRights | None:
    return next((found for key, found in rights.items() if key in keys), None)


def _keys(number: int, name: str) -> set[str]:
    """Return the configuration keys of a user or group. A name of digits is excluded: as a key it is a user or group id."""
    return {str(number)} if name.isdigit() else {str(number), name}


def _groups_of(uid: int, gid: int) -> list[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return [gid]

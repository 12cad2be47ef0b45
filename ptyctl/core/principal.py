"""Principals, which make requests, and the operations of each role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase


class Kind(StrEnum):
    """Kind of a principal."""

    PERSON = "person"
    AGENT = "agent"


class Operation(StrEnum):
    """Operation of a request. A value completes the sentence "the role may not ..."."""

    LIST = "list sessions"
    STATUS = "read the state of a session"
    READ = "read output"
    WATCH = "watch a session"
    OPEN = "open sessions"
    LOCK = "take a lock"
    WRITE = "write"
    EXEC = "run commands"
    CONFIGURE = "change a session's settings"
    NOTIFY = "send messages"
    CLOSE_OWN = "close or reset its own sessions"
    CLOSE = "close or reset sessions that others opened"
    REMOVE = "remove transcripts"
    APPROVE = "answer approval requests"
    AUDIT = "read the audit log"
    POLICY = "read the policy"
    RELOAD = "load the policy again"


class Role(StrEnum):
    """A set of operations."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"


_VIEW = frozenset({Operation.LIST, Operation.STATUS, Operation.READ, Operation.WATCH, Operation.POLICY})
_OPERATE = _VIEW | {
    Operation.OPEN, Operation.LOCK, Operation.WRITE, Operation.EXEC, Operation.CONFIGURE, Operation.NOTIFY, Operation.CLOSE_OWN,
}  # fmt: skip
#: Operations of each role, in ascending order of their number.
ROLES: Mapping[Role, frozenset[Operation]] = {
    Role.VIEWER: _VIEW,
    Role.APPROVER: _VIEW | {Operation.APPROVE},
    Role.OPERATOR: _OPERATE,
    Role.ADMIN: frozenset(Operation),
}


@dataclass(frozen=True, slots=True)
class Principal:
    """The person or program that makes a request.

    Attributes:
        name: unique among the principals of a server. Owns sessions and locks.
        devices: globs. The principal sees only sessions of devices that match one; all sessions if empty.
    """

    name: str
    kind: Kind
    role: Role
    devices: tuple[str, ...] = ()

    def may(self, operation: Operation) -> bool:
        """Return whether the role includes the operation."""
        return operation in ROLES[self.role]

    def sees(self, *names: str | None) -> bool:
        """Return whether the principal sees a device or session with one of these names. A local shell has no name."""
        return not self.devices or any(name and fnmatchcase(name, glob) for name in names for glob in self.devices)


def agent_of(user: Principal) -> Principal:
    """Return the principal of a user's MCP clients that need no token: an agent, at most an operator, with the same devices."""
    role = {Role.ADMIN: Role.OPERATOR, Role.APPROVER: Role.VIEWER}.get(user.role, user.role)
    return replace(user, name=f"{user.name}/mcp", kind=Kind.AGENT, role=role)


def needed_role(operation: Operation) -> Role:
    """Return the role with the fewest operations that has this one."""
    return next(role for role, operations in ROLES.items() if operation in operations)

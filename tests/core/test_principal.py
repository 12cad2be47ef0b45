from __future__ import annotations

import pytest

from ptyctl.core.principal import ROLES, Kind, Operation, Principal, Role, needed_role

NOT_OPERATORS = {Operation.CLOSE, Operation.REMOVE, Operation.AUDIT, Operation.RELOAD, Operation.APPROVE}
READING = {Operation.LIST, Operation.STATUS, Operation.READ, Operation.WATCH, Operation.POLICY}


def principal(role: Role = Role.OPERATOR, *devices: str) -> Principal:
    return Principal("ci", Kind.AGENT, role, devices)


@pytest.mark.parametrize(
    ("role", "operations"),
    [
        (Role.VIEWER, READING),
        (Role.APPROVER, READING | {Operation.APPROVE}),
        (Role.OPERATOR, set(Operation) - NOT_OPERATORS),
        (Role.ADMIN, set(Operation)),
    ],
)
def test_role_may_perform_exactly_its_operations(role: Role, operations: set[Operation]) -> None:
    assert {operation for operation in Operation if principal(role).may(operation)} == operations


def test_every_role_has_operations() -> None:
    assert set(ROLES) == set(Role)


@pytest.mark.parametrize(
    ("operation", "role"),
    [("READ", "viewer"), ("EXEC", "operator"), ("CLOSE_OWN", "operator"), ("CLOSE", "admin"), ("APPROVE", "approver")],
)
def test_needed_role_is_the_one_that_may_do_least(operation: str, role: str) -> None:
    assert needed_role(Operation[operation]) == role


def test_principal_without_device_globs_sees_everything() -> None:
    assert principal().sees(None)
    assert principal().sees("sw-1", None)


@pytest.mark.parametrize(
    ("names", "seen"),
    [
        (("sw-1",), True),
        (("core-1", None), True),
        ((None, "sw-2"), True),
        (("core-10",), False),
        (("SW-1",), False),
        ((None, None), False),
        (("",), False),
        ((), False),
    ],
)
def test_device_globs_match_whole_names_of_devices_and_consoles(names: tuple[str | None, ...], seen: bool) -> None:
    assert principal(Role.ADMIN, "sw-*", "core-1").sees(*names) is seen


def test_glob_for_all_devices_does_not_include_local_shells() -> None:
    assert principal(Role.ADMIN, "*").sees("sw-1")
    assert not principal(Role.ADMIN, "*").sees(None)

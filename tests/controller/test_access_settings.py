"""The table `access`: which principal a user of the machine is."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.servers.programs import require, require_program
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.controller.access import find_principal
from ptyctl.controller.settings import AccessSettings, load_access
from ptyctl.core.principal import Kind, Principal, Role, agent_of
from ptyctl.session.clients import user

#: A user and a group without an account.
UID = 61100


def access(**tables: object) -> AccessSettings:
    return AccessSettings.model_validate(tables)


@pytest.fixture(scope="module")
def account() -> Iterator[pwd.struct_passwd]:
    """A new user of the machine, with a supplementary group of the same name and "-ops"."""
    require(os.geteuid() == 0, "needs root, to create a user")
    name = f"ptyctl-{os.getpid()}"
    change_accounts("groupadd", f"{name}-ops")
    try:
        change_accounts("useradd", "-M", "-G", f"{name}-ops", name)
        try:
            yield pwd.getpwnam(name)
        finally:
            change_accounts("userdel", name)
    finally:
        change_accounts("groupdel", f"{name}-ops")


def change_accounts(program: str, *arguments: str) -> None:
    """Run a program that changes the databases of users; such a program fails while another one runs."""
    with (Path(tempfile.gettempdir()) / "ptyctl-accounts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([require_program(program, "passwd"), *arguments], check=True)


def test_user_is_found_by_name_and_uid(account: pwd.struct_passwd) -> None:
    for key in (account.pw_name, str(account.pw_uid)):
        found = find_principal(access(users={key: "viewer"}), account.pw_uid, account.pw_gid)
        assert found == Principal(account.pw_name, Kind.PERSON, Role.VIEWER)


def test_supplementary_group_of_the_user_database_counts(account: pwd.struct_passwd) -> None:
    groups = {f"{account.pw_name}-ops": {"role": "operator", "kind": "agent", "devices": ["sw-*"]}}
    found = find_principal(access(groups=groups), account.pw_uid, account.pw_gid)
    assert found == Principal(account.pw_name, Kind.AGENT, Role.OPERATOR, ("sw-*",))


def test_user_precedes_groups_and_the_first_group_of_the_table_counts(account: pwd.struct_passwd) -> None:
    own, further = str(account.pw_gid), f"{account.pw_name}-ops"
    for first, second in ((own, further), (further, own)):
        groups = {first: "viewer", second: "admin"}
        assert find_principal(access(groups=groups), account.pw_uid, account.pw_gid).role is Role.VIEWER
        users = {account.pw_name: "approver"}
        assert find_principal(access(users=users, groups=groups), account.pw_uid, account.pw_gid).role is Role.APPROVER


def test_user_without_account_has_its_number_as_name_and_the_group_of_its_process() -> None:
    assert find_principal(access(groups={str(UID): "viewer"}), UID, UID) == Principal(str(UID), Kind.PERSON, Role.VIEWER)


def test_name_of_digits_is_the_number_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.controller.access.login_name", lambda uid: "0")
    with pytest.raises(PtyctlError, match="may not use this daemon"):
        find_principal(access(users={"0": "admin"}), UID, UID)


def test_own_user_is_admin_unless_it_is_configured() -> None:
    assert find_principal(access(), os.geteuid(), os.getegid()) == user()
    assert find_principal(access(users={user().name: "viewer"}), os.geteuid(), os.getegid()).role is Role.VIEWER


@pytest.mark.parametrize(
    ("role", "expected"),
    [("admin", Role.OPERATOR), ("operator", Role.OPERATOR), ("approver", Role.VIEWER), ("viewer", Role.VIEWER)],
)
def test_mcp_clients_of_a_user_are_agents_and_operators_at_most(role: str, expected: Role) -> None:
    agent = agent_of(Principal("alice", Kind.PERSON, Role(role), ("sw-*",)))
    assert agent == Principal("alice/mcp", Kind.AGENT, expected, ("sw-*",))


@pytest.mark.parametrize(
    "grant", ["king", {}, {"role": "viewer", "devices": []}, {"role": "approver", "kind": "agent"}, {"role": "viewer", "x": 1}]
)
def test_invalid_grant_is_an_error_that_names_its_place(grant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_ACCESS", json.dumps({"users": {"alice": grant}}))
    with pytest.raises(PtyctlError, match=r"access\.users\.alice") as caught:
        load_access()
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT

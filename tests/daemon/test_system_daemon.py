"""A system daemon: each user of the machine is a separate principal, with the rights of the configuration."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fixtures.forked_process import ForkedProcess
from fixtures.http_client import loopback_client
from fixtures.servers.programs import require, require_program
from ptyctl.daemon import control
from ptyctl.daemon.connection import hello_line
from ptyctl.daemon.errors import EXIT_REFUSED, DaemonError
from ptyctl.daemon.main import run
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.daemon.system_daemon import ALICE, BOB, CAROL, DAEMON, GROUP, UNKNOWN, Answers, Call, SystemDaemon, system_daemon

pytestmark = pytest.mark.waits

ACCESS = f"""
[access]
local_sessions = true

[access.users]
{ALICE} = "admin"
{BOB} = {{ role = "operator", devices = ["sw-*"] }}

[access.groups]
{CAROL} = "viewer"
"""
LIST: Call = ("ptyctl_session", {"action": "list"})


def console(name: str) -> Call:
    fields = {"protocol": "local", "command": ["cat"], "session_type": "console", "device_id": name}
    return "ptyctl_session", {"action": "open", **fields}


def on(session_id: str, action: str, **fields: object) -> Call:
    return "ptyctl_session", {"action": action, "session_id": session_id, **fields}


def write(session_id: str, task: str) -> Call:
    return "ptyctl_session_io", {"action": "write", "session_id": session_id, "data": "x", "task_id": task}


@pytest.fixture(scope="module")
def daemon() -> Iterator[SystemDaemon]:
    with system_daemon(ACCESS) as up:
        yield up


async def open_console(daemon: SystemDaemon, name: str) -> str:
    opened = (await daemon.call(ALICE, console(name))).replies[0]
    return str(opened["session_id"])


async def test_user_gets_its_role_and_an_unknown_one_is_told_what_to_add(daemon: SystemDaemon) -> None:
    session_id = await open_console(daemon, "core-1")
    locked = on(session_id, "lock", task_id="t")
    refusal, (status, refused) = await daemon.call(CAROL, on(session_id, "status"), locked)
    assert (refusal, status["state"]) == (None, "open")
    assert (refused["error_code"], refused["details"]["needed_role"]) == ("FORBIDDEN", "operator")
    _, (_, written, _) = await daemon.call(ALICE, locked, write(session_id, "t"), on(session_id, "unlock", task_id="t"))
    assert "error_code" not in written
    refusal, _ = await daemon.call(UNKNOWN, LIST)
    assert refusal is not None
    assert (refusal["error_code"], refusal["retryable"]) == ("FORBIDDEN", False)
    assert refusal["message"] == f"the user {UNKNOWN} (uid {UNKNOWN}) may not use this daemon"
    assert f'[access.users]: "{UNKNOWN}" = "operator"' in refusal["hint"]


async def test_users_with_the_same_task_share_no_lock(daemon: SystemDaemon) -> None:
    session_id = await open_console(daemon, "sw-lock")
    locked = on(session_id, "lock", task_id="deploy")
    _, (held,) = await daemon.call(ALICE, locked)
    assert (held["lock_holder"], held["lock_principal"]) == ("deploy", str(ALICE))
    _, (refused, status) = await daemon.call(BOB, write(session_id, "deploy"), on(session_id, "status"))
    assert (refused["error_code"], refused["details"]["lock_principal"]) == ("LOCKED", str(ALICE))
    assert status["lock_principal"] == str(ALICE)


async def test_sessions_of_other_devices_do_not_exist_for_a_user_with_devices(daemon: SystemDaemon) -> None:
    shown, hidden = await open_console(daemon, "sw-1"), await open_console(daemon, "core-2")
    _, (listed, absent) = await daemon.call(BOB, LIST, on(hidden, "status"))
    names = {entry["session_id"] for entry in listed["sessions"]}
    assert (shown in names, hidden in names, absent["error_code"]) == (True, False, "NOT_FOUND")


async def test_mcp_client_of_an_admin_is_an_agent_that_is_an_operator(daemon: SystemDaemon) -> None:
    session_id = await open_console(daemon, "core-3")
    _, (opened, refused, listed) = await daemon.call(ALICE, console("core-4"), on(session_id, "close"), LIST, mcp=True)
    assert (refused["error_code"], refused["details"]["role"]) == ("FORBIDDEN", "operator")
    openers = {entry["session_id"]: entry["opened_by"] for entry in listed["sessions"]}
    assert (openers[session_id], openers[opened["session_id"]]) == (str(ALICE), f"{ALICE}/mcp")


async def test_user_outside_the_group_of_the_socket_may_not_connect(daemon: SystemDaemon) -> None:
    refusal, _ = await daemon.call(ALICE, LIST, groups=())
    assert refusal is not None
    assert "no permission to use" in refusal["message"]
    assert refusal["hint"] == f"its users are the members of the group {GROUP}"


async def test_root_has_no_access_that_is_not_configured(daemon: SystemDaemon) -> None:
    refusal, _ = await daemon.call(0, LIST)
    assert refusal is not None
    assert refusal["error_code"] == "FORBIDDEN"


async def test_only_an_admin_opens_the_web_console_and_logs_in_as_itself(daemon: SystemDaemon) -> None:
    web: Call = ("web", {"listen": "127.0.0.1:0"})
    for user in (BOB, CAROL):
        refused = (await daemon.call(user, web)).replies[0]
        assert (refused["error_code"], refused["details"]["needed_role"]) == ("FORBIDDEN", "admin")
    opened = (await daemon.call(ALICE, web)).replies[0]
    async with loopback_client(headers={"Origin": opened["url"]}, timeout=60) as client:
        reply = await client.post(f"{opened['url']}/api/login", json={"ticket": opened["ticket"]})
    assert reply.json()["principal"] == {"name": str(ALICE), "kind": "person", "role": "admin"}


async def test_clients_open_no_local_sessions_and_name_no_files_by_default() -> None:
    host: Call = ("ptyctl_session", {"action": "open", "protocol": "ssh", "host": "127.0.0.1", "port": 1})
    files: list[dict[str, object]] = [
        {"auth": {"private_key_path": "/etc/ptyctl/key"}},
        {"ssh_options": {"config_path": "/tmp/config"}},
        {"ssh_options": {"known_hosts_path": "/tmp/known_hosts"}},
    ]
    named: list[Call] = [(host[0], {**host[1], **field}) for field in files]
    telnet: Call = ("ptyctl_session", {"action": "open", "protocol": "telnet", "host": "127.0.0.1", "port": 1})
    shell: Call = ("pty_exec_block", {"conversation_id": "c", "cmd": "id"})
    with system_daemon(f'[access.users]\n{ALICE} = "admin"\n') as daemon:
        _, replies = await daemon.call(ALICE, console("c"), *named, shell, telnet)
    assert [reply.get("error_code", reply.get("error")) for reply in replies] == [
        *4 * ["FORBIDDEN"], "forbidden", "CONNECT_FAILED",
    ]  # fmt: skip
    assert "local_sessions = true" in replies[0]["hint"]


@contextmanager
def accounts(*names: str) -> Iterator[None]:
    """Accounts of the machine while the context is open; the group of the first one has the last one as a member."""
    require(os.geteuid() == 0, "needs root, to add users")
    useradd, userdel = require_program("useradd", "passwd"), require_program("userdel", "passwd")
    try:
        for name in names:
            groups = ("--groups", names[0]) if name == names[-1] else ()
            subprocess.run((useradd, "--system", "--user-group", "--no-create-home", *groups, name), check=True)
        yield
    finally:
        for name in reversed(names):
            subprocess.run((userdel, name), check=False, capture_output=True)


async def test_accounts_of_the_machine_are_principals_by_name_and_by_group() -> None:
    netops, agent, stranger, member = names = tuple(f"ptyt{os.getpid()}{letter}" for letter in "abcd")
    access = f"""
[access]
local_sessions = true

[access.users]
{netops} = "admin"
{agent} = {{ role = "operator", kind = "agent", devices = ["sw-*"] }}

[access.groups]
{netops} = "viewer"
"""
    with accounts(*names), system_daemon(access) as daemon:

        async def call(name: str, *calls: Call) -> Answers:
            user = pwd.getpwnam(name)
            groups = (GROUP, *os.getgrouplist(name, user.pw_gid))
            return await daemon.call(user.pw_uid, *calls, gid=user.pw_gid, groups=groups)

        shown, hidden = (await call(netops, console("sw-1"), console("core-1"))).replies
        shown_id, hidden_id = shown["session_id"], hidden["session_id"]
        _, (locked, listed, absent) = await call(agent, on(shown_id, "lock", task_id="t"), LIST, on(hidden_id, "status"))
        assert locked["lock_principal"] == agent
        assert [(entry["session_id"], entry["opened_by"]) for entry in listed["sessions"]] == [(shown_id, netops)]
        assert absent["error_code"] == "NOT_FOUND"
        _, (read, refused) = await call(member, on(hidden_id, "status"), on(hidden_id, "lock", task_id="t"))
        assert (read["state"], refused["error_code"], refused["details"]["needed_role"]) == ("open", "FORBIDDEN", "operator")
        refusal, _ = await call(stranger, LIST)
        assert refusal is not None
        assert (refusal["error_code"], f'[access.users]: "{stranger}" = "operator"' in refusal["hint"]) == ("FORBIDDEN", True)


async def test_changed_configuration_counts_for_the_next_connection() -> None:
    with system_daemon("") as daemon:
        assert (await daemon.call(ALICE)).refusal is not None
        daemon.configure(f'[access.users]\n{ALICE} = "viewer"\n')
        assert (await daemon.call(ALICE)).refusal is None
        daemon.configure(f'[access.users]\n{ALICE} = "king"\n')
        refusal = (await daemon.call(ALICE)).refusal
        assert refusal is not None
        assert (refusal["error_code"], "access.users" in refusal["message"]) == ("INVALID_ARGUMENT", True)
        daemon.config.chmod(0o666)
        refusal = (await daemon.call(ALICE)).refusal
        assert refusal is not None
        assert (refusal["error_code"], "others can write it" in refusal["message"]) == ("POLICY_DENIED", True)


async def test_connections_have_rows_with_the_user_in_the_audit_log() -> None:
    with system_daemon(f'[access.users]\n{ALICE} = "viewer"\n') as daemon:
        await daemon.call(ALICE)
        await daemon.call(UNKNOWN)
        daemon.stop()
        rows = [row for row in daemon.audit_rows() if row["event"] in ("connect", "refused")]
    connected, refused = rows
    assert (connected["principal"], connected["uid"], connected["via"]) == (str(ALICE), ALICE, "rpc")
    assert (refused["uid"], "may not use" in refused["why"]) == (UNKNOWN, True)


async def test_client_waits_for_a_daemon_that_is_restarted() -> None:
    with system_daemon(ACCESS) as daemon:
        await open_console(daemon, "sw-1")
        daemon.stop(control.HAND_OVER)
        calling = asyncio.create_task(daemon.call(ALICE, LIST))
        await asyncio.to_thread(daemon.start)
        assert (await calling).refusal is None


async def test_daemon_of_one_user_serves_no_other_one() -> None:
    with system_daemon() as daemon:
        daemon.runtime.chmod(0o700)
        daemon.start(system=False)
        refusal, _ = await daemon.call(ALICE, LIST)
        assert refusal is not None
        assert "no permission to use" in refusal["message"]
        refusal, _ = await daemon.call(0, LIST)  # root passes the directory
        assert refusal is not None
        assert (refusal["error_code"], refusal["message"]) == ("FORBIDDEN", "this daemon serves its own user only")


async def test_client_starts_no_daemon_for_a_system_user() -> None:
    with system_daemon() as daemon:
        refusal, _ = await daemon.call(ALICE, LIST)
        assert refusal is not None
        assert "the system daemon is not up" in refusal["message"]
        assert list(daemon.runtime.iterdir()) == []
        daemon.runtime.rmdir()
        refusal, _ = await daemon.call(0, LIST)
        assert refusal is not None
        assert "No such file" in refusal["message"]
        assert not daemon.runtime.exists()


async def test_client_trusts_no_directory_or_daemon_of_another_user() -> None:
    with system_daemon() as daemon, socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(daemon.runtime / "daemon.sock"))
        impostor.listen()
        (daemon.runtime / "daemon.sock").chmod(0o666)
        refusal, _ = await daemon.call(ALICE, LIST)
        assert refusal is not None
        assert "belongs to user 0" in refusal["message"]
        os.chown(daemon.runtime, UNKNOWN, GROUP)
        refusal, _ = await daemon.call(ALICE, LIST)
        assert refusal is not None
        assert f"belongs to user {UNKNOWN}" in refusal["message"]
        os.chown(daemon.runtime, DAEMON, GROUP)
        daemon.runtime.chmod(0o777)
        refusal, _ = await daemon.call(ALICE, LIST)
        assert refusal is not None
        assert "accessible to other users" in refusal["message"]


def test_system_user_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_SYSTEM_USER", "no-such-user")
    with pytest.raises(DaemonError, match="no user of this machine"):
        RuntimeDir()


def test_system_daemon_gets_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "0815")
    assert b"0815" in hello_line("rpc")
    assert b"0815" not in hello_line("rpc", to_system=True)


def test_users_daemon_is_not_run_in_the_place_of_the_system_daemon(
    monkeypatch: pytest.MonkeyPatch, runtime_dir: RuntimeDir, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PTYCTL_SYSTEM_USER", str(os.geteuid()))
    assert ForkedProcess(run, files=(0, 1, 2)).wait() == EXIT_REFUSED
    assert "clients use the system daemon" in capfd.readouterr().err


def test_system_daemon_is_not_stopped_by_clients(monkeypatch: pytest.MonkeyPatch, runtime_dir: RuntimeDir) -> None:
    monkeypatch.setenv("PTYCTL_SYSTEM_USER", str(os.geteuid()))
    runtime_dir.path.chmod(0o750)
    with pytest.raises(DaemonError, match="by its administrator"):
        control.stop(RuntimeDir(runtime_dir.path))

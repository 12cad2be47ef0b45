"""open, close, list, status: every field of the replies, and what cannot be."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from ptyctl.api import Controller, ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from tests.controller.acting import (
    BASH,
    PATIENCE_MS,
    MakeController,
    Open,
    config,
    puppet,
    read,
    refused,
    session,
    until,
    write,
)


async def test_open_answers_with_all_it_knows(controller: Controller) -> None:
    reply = await session(controller, "open", protocol="local", command=BASH)
    payload = reply.payload()
    session_id = payload.pop("session_id")
    assert session_id
    assert payload == {
        "action": "open",
        "success": True,
        "protocol": "local",
        "state": "open",
        "pty_enabled": True,
        "next_cursor": "0",
        "lock_acquired": False,
    }


async def test_open_with_a_lock(controller: Controller) -> None:
    before = time.time() * 1000
    reply = await session(
        controller, "open", protocol="local", command=BASH, acquire_lock=True, task_id="task-1", lock_ttl_ms=30_000
    )
    assert reply.lock_acquired is True
    assert reply.lock_holder == "task-1"
    assert reply.fence == 1
    assert reply.lock_expires_at is not None
    assert before + 29_000 < reply.lock_expires_at < time.time() * 1000 + 31_000


async def test_open_takes_cwd_env_and_size(open_session: Open, tmp_path: Path) -> None:
    handle = await open_session(
        cwd=str(tmp_path), env={"GREETING": "hällo"}, pty={"cols": 91, "rows": 17, "term": "vt100"}, platform="linux"
    )
    reply = await handle.exec('pwd; echo "$GREETING $TERM"; stty size')
    assert reply.stdout == f"{tmp_path}\nhällo vt100\n17 91\n"
    assert handle.opened.platform == "linux"


async def test_without_a_command_the_users_shell_runs(
    open_session: Open, make_controller: MakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    handle = await open_session(on=await make_controller(), command=None)
    assert (await handle.exec("echo $0")).stdout == "/bin/sh\n"


async def test_a_command_line_is_run_by_a_shell(open_session: Open) -> None:
    handle = await open_session(command="echo one; echo two")
    reply = await handle.read(until_regex="two\n", timeout_ms=PATIENCE_MS)
    assert reply.chunk == "one\ntwo\n"


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({}, ["protocol", "device"]),
        ({"protocol": "ssh"}, ["needs host"]),
        ({"protocol": "carrier-pigeon"}, ["protocol"]),
        ({"protocol": "local", "host": "h"}, ["local", "host"]),
        ({"protocol": "local", "session_type": "console"}, ["device_id"]),
        ({"protocol": "local", "device_id": "d"}, ["console"]),
        ({"protocol": "local", "acquire_lock": True}, ["task_id"]),
        ({"protocol": "local", "session_id": "s"}, ["session_id"]),
        ({"protocol": "local", "pty": {"cols": 0}}, ["pty.cols"]),
        ({"protocol": "local", "colour": "blue"}, ["colour"]),
        ({"protocol": "local", "expect": {"prompt_regex": "(?=x)"}}, ["prompt_regex", "lookahead"]),
        ({"protocol": "local", "cwd": "/nowhere/at/all"}, ["/nowhere/at/all"]),
        ({"protocol": "local", "cwd": "/tmp\0"}, ["cwd", "NUL"]),
        ({"protocol": "local", "cwd": "x" * 5000}, ["cwd"]),
        ({"protocol": "ssh", "host": "h", "auth": {"private_key_path": "~nobody-has-this-name/k"}}, ["private key"]),
        ({"protocol": "ssh", "host": "h", "ssh_options": {"known_hosts_path": "k\0"}}, ["known_hosts_path", "NUL"]),
        ({"protocol": "local", "cwd": "~nobody-has-this-name/x"}, ["cwd"]),
        ({"protocol": "local", "command": ["echo", "a\0b"]}, ["command", "NUL"]),
        ({"protocol": "local", "env": {"A=B": "c"}}, ["env", "environment variable"]),
        ({"protocol": "local", "env": {"A": "\ud800"}}, ["env", "surrogate"]),
    ],
)
async def test_an_open_that_cannot_be(controller: Controller, fields: dict[str, object], parts: list[str]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, *parts):
        await session(controller, "open", **fields)
    assert (await session(controller, "list")).sessions == []


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"protocol": "local", "platform": "toaster_os"}, "toaster_os"),
        ({"protocol": "local", "pty": {"enabled": False}}, "pty.enabled"),
    ],
)
async def test_an_open_that_is_not_here_yet(controller: Controller, fields: dict[str, object], part: str) -> None:
    with refused(ErrorCode.UNSUPPORTED, part):
        await session(controller, "open", **fields)


async def test_a_device_without_an_inventory(controller: Controller) -> None:
    with refused(ErrorCode.NOT_FOUND, "devices.toml", "PTYCTL_DEVICES_FILE"):
        await session(controller, "open", device="core-switch")


async def test_a_program_that_cannot_start(controller: Controller, tmp_path: Path) -> None:
    with refused(ErrorCode.CONNECT_FAILED, "no-such-program"):
        await session(controller, "open", protocol="local", command=("no-such-program",))
    with refused(ErrorCode.CONNECT_FAILED, str(tmp_path)):
        await session(controller, "open", protocol="local", command=(str(tmp_path),))
    assert (await session(controller, "list")).sessions == []


async def test_a_secret_is_not_in_an_error(controller: Controller) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT) as caught:
        await session(controller, "open", protocol="ssh", host="h", auth={"password": ["hunter2"]})
    assert "hunter2" not in str(caught.value.payload())


async def test_list_tells_each_session(controller: Controller, open_session: Open) -> None:
    before = int(time.time() * 1000)
    one = await puppet(open_session, pty={"cols": 100, "rows": 30}, platform="generic")
    two = await open_session(session_type="console", device_id="rack-1", acquire_lock=True, task_id="task-1")
    await one.read(timeout_ms=0)
    reply = await session(controller, "list")
    entries = {entry.session_id: entry for entry in reply.sessions or []}
    assert set(entries) == {one.session_id, two.session_id}
    entry = entries[one.session_id].model_dump(exclude_none=True)
    assert before <= entry.pop("created_at") <= entry.pop("last_activity_at") <= time.time() * 1000
    assert entry.pop("disk_bytes") >= 6
    assert entry == {
        "session_id": one.session_id,
        "protocol": "local",
        "session_type": "normal",
        "platform": "generic",
        "state": "open",
        "mode": "idle",
        "pty": {"enabled": True, "cols": 100, "rows": 30, "term": "xterm-256color"},
        "observers": 1,
        "bytes_received": 6,
        "bytes_sent": 0,
        "spool_size": 6,
        "incarnation": 1,
    }
    console = entries[two.session_id]
    assert (console.session_type, console.device_id, console.lock_holder) == ("console", "rack-1", "task-1")
    assert console.lock_expires_at is not None


async def test_list_tells_what_the_controller_can_do(controller: Controller) -> None:
    capabilities = (await session(controller, "list")).capabilities
    assert capabilities is not None
    assert {"local", "ssh", "telnet"} <= set(capabilities.protocols)
    for by_protocol in (
        capabilities.supports_split_stdout_stderr,
        capabilities.supports_exit_code,
        capabilities.supports_resize,
    ):
        assert set(by_protocol) == set(capabilities.protocols)
    assert "core" in capabilities.toolsets
    assert capabilities.platforms


async def test_bytes_are_counted_both_ways(controller: Controller, open_session: Open) -> None:
    handle = await puppet(open_session)
    await write(handle, data=b"\xff\x1b[1m".hex() + "\n")
    await handle.read(until_idle_ms=100, timeout_ms=PATIENCE_MS)
    (entry,) = (await session(controller, "list")).sessions or []
    assert entry.bytes_sent == 11
    assert entry.bytes_received == 6 + 5
    assert entry.spool_size == 6 + 1


async def test_status(bash: SessionHandle) -> None:
    payload = (await bash.status()).payload()
    assert payload == {
        "action": "status",
        "success": True,
        "session_id": bash.session_id,
        "state": "open",
        "mode": "idle",
        "observers": [],
        "queue": [],
    }
    assert (await bash.exec("sleep 20", timeout_ms=0)).timed_out
    assert (await bash.status()).mode == "block_running"


async def test_observers_are_those_who_read_and_do_not_hold_the_lock(bash: SessionHandle) -> None:
    reads = [asyncio.create_task(read(bash, timeout_ms=0)) for _ in range(5)]
    await asyncio.gather(*reads)  # a reader without a name is one, however often it reads
    assert (await bash.status()).observers == [""]
    await read(bash, timeout_ms=0, task_id="watcher")
    await read(bash, timeout_ms=0, task_id="holder")
    await session(bash.controller, "lock", session_id=bash.session_id, task_id="holder")
    assert (await bash.status()).observers == ["", "watcher"]


async def test_close_ends_the_program_and_keeps_the_history(controller: Controller, bash: SessionHandle) -> None:
    pid = int((await bash.exec("echo $$")).stdout)
    end = (await bash.read(until_regex=r"\n\d+\n.*[$#] $", timeout_ms=PATIENCE_MS)).buffer_end_cursor
    assert (await session(controller, "close", session_id=bash.session_id)).payload() == {
        "action": "close",
        "success": True,
        "session_id": bash.session_id,
    }
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert (await session(controller, "list")).sessions == []
    reply = await read(bash, cursor="0", timeout_ms=0)
    assert str(pid) in (reply.chunk or "")
    assert (reply.next_cursor, reply.buffer_end_cursor, reply.eof) == (end, end, True)


async def test_a_closed_session_takes_nothing_more(bash: SessionHandle) -> None:
    await bash.close()
    await bash.close()
    for call in (
        lambda: bash.exec("echo hi"),
        lambda: bash.write("x"),
        lambda: bash.key("enter"),
        lambda: bash.resize(80, 24),
        lambda: config(bash, "get"),
        bash.status,
        lambda: bash.lock(task_id="t"),
        lambda: bash.unlock(task_id="t"),
        lambda: bash.heartbeat(task_id="t"),
    ):
        with refused(ErrorCode.ALREADY_CLOSED, f"{bash.session_id} is closed (on request)"):
            await call()


@pytest.mark.parametrize(("task_id", "why"), [(None, r"\(on request\)"), ("night-shift", r"\(by night-shift\)")])
async def test_whoever_comes_too_late_is_told_who_closed_it(bash: SessionHandle, task_id: str | None, why: str) -> None:
    await session(bash.controller, "close", session_id=bash.session_id, **({"task_id": task_id} if task_id else {}))
    with pytest.raises(PtyctlError, match=f"session {bash.session_id} is closed {why}; its history can still be read"):
        await bash.exec("echo hi")


async def test_an_unknown_session_is_not_found(bash: SessionHandle) -> None:
    bash.session_id, known = "no-such-session", bash.session_id
    for call in (
        lambda: bash.exec("x"),
        lambda: bash.write("x"),
        bash.read,
        lambda: bash.resize(80, 24),
        bash.status,
        bash.close,
    ):
        with refused(ErrorCode.NOT_FOUND, "no-such-session"):
            await call()
    bash.session_id = known


async def test_close_of_a_program_that_ignores_the_hang_up(open_session: Open) -> None:
    handle = await open_session(command=("sh", "-c", 'trap "" HUP; echo $$; while :; do sleep 1; done'))
    pid = int((await handle.read(until_regex=r"\d+\n", timeout_ms=PATIENCE_MS)).chunk or "")
    await handle.close(force=True)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_closes_at_one_moment_all_wait_for_the_end(open_session: Open) -> None:
    handle = await open_session(command=("sh", "-c", 'trap "" HUP; echo $$; while :; do sleep 1; done'))
    pid = int((await handle.read(until_regex=r"\d+\n", timeout_ms=PATIENCE_MS)).chunk or "")
    first = asyncio.create_task(handle.close())
    await asyncio.sleep(0)
    first.cancel()  # whoever asked first is gone: the close goes on all the same
    await asyncio.gather(handle.close(), handle.close(), first, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_session_that_nobody_uses_is_closed(open_session: Open, controller: Controller) -> None:
    handle = await open_session(timeouts={"idle_timeout_ms": 300})
    for _ in range(4):  # each use starts the time anew, and a call that waits is a use
        await read(handle, until_regex="never", timeout_ms=150)
    reply = await handle.exec("sleep 0.5; echo used")
    assert reply.stdout == "used\n"

    async def gone() -> bool:
        return not (await session(controller, "list")).sessions

    await until(gone)
    with refused(ErrorCode.ALREADY_CLOSED):
        await handle.exec("echo late")
    assert "used" in ((await read(handle, cursor="0", timeout_ms=0)).chunk or "")


async def test_only_so_many_sessions(make_controller: MakeController, open_session: Open) -> None:
    small = await make_controller(max_sessions=2)
    one = await open_session(on=small)
    await open_session(on=small)
    with refused(ErrorCode.LIMIT_EXCEEDED, "2", "close one") as caught:
        await open_session(on=small)
    assert caught.value.retryable
    with refused(ErrorCode.LIMIT_EXCEEDED):
        await asyncio.gather(*(open_session(on=small) for _ in range(3)))
    await one.close()
    with refused(ErrorCode.CONNECT_FAILED):  # one that fails to open gives its place back
        await open_session(on=small, command=("no-such-program",))
    results = await asyncio.gather(*(open_session(on=small) for _ in range(3)), return_exceptions=True)
    assert sum(isinstance(result, SessionHandle) for result in results) == 1


@pytest.mark.parametrize("where", ["", "sessions"])
async def test_a_state_directory_that_others_can_read(controller: Controller, where: str) -> None:
    folder = Path(os.environ["PTYCTL_STATE_DIR"]) / where
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    folder.chmod(0o750)
    with refused(ErrorCode.POLICY_DENIED, f"chmod 700 {folder}"):
        await session(controller, "open", protocol="local", command=BASH)
    folder.chmod(0o700)
    await session(controller, "open", protocol="local", command=BASH)


async def test_what_is_kept_is_for_its_owner_only(bash: SessionHandle) -> None:
    await bash.exec("echo secret")
    folder = Path(os.environ["PTYCTL_STATE_DIR"])
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"output.raw", "output.spool", "timeline.jsonl", "meta.json"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*")) if path.is_dir()} == {0o700}

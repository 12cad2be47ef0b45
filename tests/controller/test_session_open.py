"""Open: options, replies, errors, limits and file permissions."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api import Controller, ErrorCode
from ptyctl.api.errors import NextStep, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from ptyctl.session.session import Session
from tests.controller.session_calls import BASH, PATIENCE_MS, MakeController, Open, refused, session


@pytest.mark.also_remote("every field of a reply")
async def test_open_reply_has_all_fields(controller: Controller) -> None:
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


@pytest.mark.also_remote("fields of the lease")
async def test_open_with_lock_returns_the_lease(controller: Controller) -> None:
    before = time.time() * 1000
    reply = await session(
        controller, "open", protocol="local", command=BASH, acquire_lock=True, task_id="task-1", lock_ttl_ms=30_000
    )
    assert reply.lock_acquired is True
    assert reply.lock_holder == "task-1"
    assert reply.fence == 1
    assert reply.lock_expires_at is not None
    assert before + 29_000 < reply.lock_expires_at < time.time() * 1000 + 31_000


@pytest.mark.also_remote("options in requests")
async def test_open_applies_cwd_env_and_size(open_session: Open, tmp_path: Path) -> None:
    handle = await open_session(
        cwd=str(tmp_path), env={"GREETING": "hällo"}, pty={"cols": 91, "rows": 17, "term": "vt100"}, platform="linux"
    )
    reply = await handle.exec('pwd; echo "$GREETING $TERM"; stty size')
    assert reply.stdout == f"{tmp_path}\nhällo vt100\n17 91\n"
    assert handle.opened.platform == "linux"


async def test_open_without_command_starts_the_users_shell(
    open_session: Open, make_controller: MakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    handle = await open_session(on=await make_controller(), command=None)
    assert (await handle.exec("echo $0")).stdout == "/bin/sh\n"


async def test_command_string_is_run_by_sh(open_session: Open) -> None:
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
        ({"protocol": "ssh", "host": "h", "ssh_options": {"known_hosts_path": "k\0"}}, ["known_hosts_path", "NUL"]),
        ({"protocol": "local", "cwd": "~nobody-has-this-name/x"}, ["cwd"]),
        ({"protocol": "local", "command": ["echo", "a\0b"]}, ["command", "NUL"]),
        ({"protocol": "local", "env": {"A=B": "c"}}, ["env", "environment variable"]),
        ({"protocol": "local", "env": {"A": "\ud800"}}, ["env", "surrogate"]),
    ],
)
async def test_invalid_open_request_is_refused(controller: Controller, fields: dict[str, object], parts: list[str]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, *parts):
        await session(controller, "open", **fields)
    assert (await session(controller, "list")).sessions == []


async def test_open_with_too_complex_prompt_is_refused(controller: Controller) -> None:
    with refused(ErrorCode.LIMIT_EXCEEDED, "expect.prompt_regex", "12000 instructions"):
        await session(controller, "open", protocol="local", expect={"prompt_regex": "(?:.{0,1000}|a.{0,1000})#$"})
    assert (await session(controller, "list")).sessions == []


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"protocol": "local", "platform": "toaster_os"}, "toaster_os"),
        ({"protocol": "local", "pty": {"enabled": False}}, "pty.enabled"),
    ],
)
async def test_unsupported_open_option_is_refused(controller: Controller, fields: dict[str, object], part: str) -> None:
    with refused(ErrorCode.UNSUPPORTED, part):
        await session(controller, "open", **fields)


async def test_device_without_inventory_is_not_found(controller: Controller) -> None:
    with refused(ErrorCode.NOT_FOUND, "devices.toml", "PTYCTL_DEVICES_FILE"):
        await session(controller, "open", device="core-switch")


async def test_program_that_cannot_start_fails_the_open(controller: Controller, tmp_path: Path) -> None:
    with refused(ErrorCode.CONNECT_FAILED, "no-such-program"):
        await session(controller, "open", protocol="local", command=("no-such-program",))
    with refused(ErrorCode.CONNECT_FAILED, str(tmp_path)):
        await session(controller, "open", protocol="local", command=(str(tmp_path),))
    assert (await session(controller, "list")).sessions == []


@pytest.mark.also_remote("error of a refused request")
async def test_error_never_contains_a_secret(controller: Controller) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT) as caught:
        await session(controller, "open", protocol="ssh", host="h", auth={"password": ["hunter2"]})
    assert "hunter2" not in str(caught.value.payload())


async def test_session_limit_is_enforced(make_controller: MakeController, open_session: Open) -> None:
    small = await make_controller(max_sessions=2)
    one = await open_session(on=small)
    await open_session(on=small)
    with refused(ErrorCode.LIMIT_EXCEEDED, "2", NextStep.CLOSE_SESSIONS) as caught:
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
async def test_world_readable_state_dir_is_refused(controller: Controller, where: str) -> None:
    folder = Path(os.environ["PTYCTL_STATE_DIR"]) / where
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)  # the audit log of the policy may have made it
    folder.parent.chmod(0o700)
    folder.chmod(0o750)
    with refused(ErrorCode.POLICY_DENIED, f"chmod 700 {folder}"):
        await session(controller, "open", protocol="local", command=BASH)
    folder.chmod(0o700)
    await session(controller, "open", protocol="local", command=BASH)


async def test_session_files_are_private(
    bash: SessionHandle, controller: Controller, servers: dict[Controller, LocalController]
) -> None:
    await bash.exec("echo secret")
    await asyncio.to_thread(servers[controller].audit_log.close)  # its thread replaces a file
    folder = Path(os.environ["PTYCTL_STATE_DIR"])
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"output.raw", "output.spool", "timeline.jsonl", "meta.json"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*")) if path.is_dir()} == {0o700}


async def test_failing_opens_take_turns_to_create_and_remove_their_files(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    iteration, steps = 0, []

    async def count() -> None:
        nonlocal iteration
        while True:
            await asyncio.sleep(0)
            iteration += 1

    def recorded(*args: Any, **fields: Any) -> Session:
        steps.append(iteration)
        return Session(*args, **fields)

    monkeypatch.setattr("ptyctl.controller.session_factory.Session", recorded)
    monkeypatch.setattr("ptyctl.controller.session_factory.shutil.rmtree", lambda *args, **fields: steps.append(iteration))
    counter = asyncio.create_task(count())
    opens = (session(controller, "open", protocol="local", command=["/nonexistent"]) for _ in range(20))
    errors = await asyncio.gather(*opens, return_exceptions=True)
    counter.cancel()
    assert all(isinstance(error, PtyctlError) for error in errors)
    assert len(set(steps)) == len(steps) == 40

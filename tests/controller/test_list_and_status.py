"""Every field of the replies to list and status."""

from __future__ import annotations

import asyncio
import time

import pytest

from ptyctl.api import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import Client, serving, user
from tests.controller.session_calls import PATIENCE_MS, Open, heard, read, scripted_program, session


@pytest.mark.also_remote("entries of a list")
async def test_list_has_an_entry_for_each_session(controller: Controller, open_session: Open) -> None:
    before = int(time.time() * 1000)
    one = await scripted_program(open_session, pty={"cols": 100, "rows": 30}, platform="generic")
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
        "opened_by": user().name,
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


@pytest.mark.also_remote("reply of an ended session")
async def test_status_of_ended_command_has_its_exit_code(controller: Controller, open_session: Open) -> None:
    handle = await open_session(command="read -r code; exit $code")
    assert (await session(controller, "status", session_id=handle.session_id)).exit_code is None
    await handle.write("7\n")
    while not (await handle.read(timeout_ms=PATIENCE_MS)).eof:
        pass
    status = await session(controller, "status", session_id=handle.session_id)
    assert (status.state, status.exit_code) == ("eof", 7)


async def test_list_reports_capabilities(controller: Controller) -> None:
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


async def test_bytes_sent_and_received_are_counted(controller: Controller, open_session: Open) -> None:
    handle = await scripted_program(open_session)
    await heard(handle, b"\x1b[1m\xff", b"?")
    (entry,) = (await session(controller, "list")).sessions or []
    assert entry.bytes_sent == 11
    assert entry.bytes_received == 6 + 5
    assert entry.spool_size == 6 + 1


@pytest.mark.also_remote("every field of a reply")
async def test_status_reports_state_lock_and_queue(bash: SessionHandle) -> None:
    payload = (await bash.status()).payload()
    assert payload == {
        "action": "status",
        "success": True,
        "session_id": bash.session_id,
        "state": "open",
        "mode": "idle",
        "observers": [],
        "queue": [],
        "policy": "guarded",
    }
    assert (await bash.exec("sleep 20", timeout_ms=0)).timed_out
    assert (await bash.status()).mode == "block_running"


async def test_observers_are_readers_without_the_lock(bash: SessionHandle) -> None:
    reads = [asyncio.create_task(read(bash, timeout_ms=0)) for _ in range(5)]
    await asyncio.gather(*reads)  # a reader without a name counts once, however often it reads
    assert (await bash.status()).observers == [""]
    await read(bash, timeout_ms=0, task_id="watcher")
    await read(bash, timeout_ms=0, task_id="holder")
    await session(bash.controller, "lock", session_id=bash.session_id, task_id="holder")
    assert (await bash.status()).observers == ["", "watcher"]


@pytest.mark.also_remote("principal of a call")
async def test_observers_are_counted_by_principal_and_others_are_named(bash: SessionHandle) -> None:
    await read(bash, timeout_ms=0, task_id="t")
    with serving(Client(Principal("ci", Kind.AGENT, Role.OPERATOR))):
        await read(bash, timeout_ms=0, task_id="t")
        await read(bash, timeout_ms=0)
        assert (await bash.status()).observers == [f"t ({user().name})", "t", ""]
        await session(bash.controller, "lock", session_id=bash.session_id, task_id="t")
    assert (await bash.status()).observers == ["t", "(ci)"]
    (entry,) = (await session(bash.controller, "list")).sessions or []
    assert entry.observers == 2

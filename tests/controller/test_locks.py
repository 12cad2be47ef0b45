"""Locks: who may write, for how long, and what happens to writes and runs when a lock is lost."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.errors import NextStep
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import (
    PATIENCE_MS,
    Open,
    config,
    execute,
    read,
    refused,
    scripted_program,
    session,
    until,
    until_at,
    write,
)

pytestmark = pytest.mark.waits


def held_by(holder: str) -> str:
    return f"Session locked by task {holder}"


async def lock(handle: SessionHandle, task_id: str, **fields: object) -> None:
    await session(handle.controller, "lock", session_id=handle.session_id, task_id=task_id, **fields)


async def unlock(handle: SessionHandle, task_id: str) -> None:
    await session(handle.controller, "unlock", session_id=handle.session_id, task_id=task_id)


async def lose_lock(bash: SessionHandle) -> None:
    """Let the lock of `task-1` expire once the command has printed its first line."""
    assert (await read(bash, cursor="0", until_regex="(?m)^begun\n", timeout_ms=PATIENCE_MS)).matched
    await expire(bash, "task-1")


async def expire(handle: SessionHandle, task_id: str) -> None:
    """Let a lock expire now. A short lifetime from the start could end before the step that it is meant for."""
    await session(handle.controller, "heartbeat", session_id=handle.session_id, task_id=task_id, lock_ttl_ms=1)


async def until_sent(handle: SessionHandle) -> None:
    """Wait for the first bytes of a write."""

    async def sent() -> bool:
        (entry,) = (await session(handle.controller, "list")).sessions or []
        return entry.bytes_sent > 0

    await until(sent)


async def until_free(handle: SessionHandle) -> None:
    async def free() -> bool:
        return (await handle.status()).lock_holder is None

    await until(free)


@pytest.mark.also_remote("replies of lock actions")
async def test_lock_heartbeat_and_unlock_return_the_lease(bash: SessionHandle) -> None:
    bash.task_id = "task-1"
    now = time.time() * 1000
    locked = await bash.lock(lock_ttl_ms=5_000)
    assert (locked.success, locked.lock_holder, locked.fence) == (True, "task-1", 1)
    assert locked.lock_expires_at is not None
    assert now + 4_900 < locked.lock_expires_at < time.time() * 1000 + 5_100
    extended = await bash.lock(lock_ttl_ms=90_000)
    assert extended.fence == 1  # the same lease, longer
    now = time.time() * 1000
    beat = await bash.heartbeat()
    assert beat.lock_holder == "task-1"
    assert beat.lock_expires_at is not None
    assert now + 59_900 < beat.lock_expires_at < time.time() * 1000 + 60_100  # the default
    status = await bash.status()
    assert (status.lock_holder, status.queue) == ("task-1", [])
    assert status.lock_expires_at == pytest.approx(beat.lock_expires_at, abs=5)
    freed = await bash.unlock()
    assert (freed.success, freed.lock_holder, freed.lock_expires_at) == (True, None, None)
    assert (await bash.status()).lock_holder is None
    assert (await bash.lock()).fence == 2


@pytest.mark.also_remote("error details")
async def test_locked_session_refuses_writes_and_names_holder(bash: SessionHandle) -> None:
    await lock(bash, "task-1")
    for task_id in ("task-2", None):
        bash.task_id = task_id
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: bash.write("x"),
            lambda: bash.key("ctrl_c"),
            lambda: bash.key("break"),
            lambda: bash.exec("echo x"),
            lambda: bash.resize(80, 24),
            bash.close,
        ]
        if task_id is not None:
            calls += [bash.lock, bash.unlock, bash.heartbeat]
        for call in calls:
            with refused(ErrorCode.LOCKED, held_by("task-1")) as caught:
                await call()
            assert caught.value.details["lock_holder"] == "task-1"
            assert caught.value.retryable
    bash.task_id = None
    await read(bash, timeout_ms=0)
    await config(bash, "get")
    bash.task_id = "task-1"
    assert (await bash.exec("echo mine")).stdout == "mine\n"
    await bash.close()


async def test_forced_close_ignores_the_lock(bash: SessionHandle) -> None:
    await lock(bash, "task-1")
    bash.task_id = "task-2"
    await bash.close(force=True)
    with refused(ErrorCode.ALREADY_CLOSED):
        await bash.status()


async def test_expired_lease_leaves_session_open(bash: SessionHandle) -> None:
    await lock(bash, "task-1", lock_ttl_ms=50)
    await until_free(bash)
    assert (await bash.status()).state == "open"
    bash.task_id = "task-1"
    with refused(ErrorCode.LOCK_LOST, "task-1", "does not hold the lock", "it expired") as caught:
        await bash.heartbeat()
    assert caught.value.details["reason"] == "expired"
    await bash.unlock()  # no holder: no effect
    bash.task_id = "task-2"
    assert (await bash.lock()).fence == 2
    with refused(ErrorCode.LOCKED, held_by("task-2")):
        await session(bash.controller, "heartbeat", session_id=bash.session_id, task_id="task-1")


async def test_lock_lost_names_take_over_release_and_missing_lock(bash: SessionHandle) -> None:
    bash.task_id = "task-1"
    with refused(ErrorCode.LOCK_LOST, "it was not held") as caught:
        await bash.heartbeat()
    assert caught.value.details["reason"] == "not_held"
    await lock(bash, "task-1")
    await lock(bash, "task-2", force=True)
    await session(bash.controller, "unlock", session_id=bash.session_id, task_id="task-2")
    with refused(ErrorCode.LOCK_LOST, "was taken over by task task-2") as caught:
        await bash.heartbeat()
    assert caught.value.details["reason"] == "taken_over"
    await bash.lock()
    await bash.unlock()
    with refused(ErrorCode.LOCK_LOST, "it was released") as caught:
        await bash.heartbeat()
    assert caught.value.details["reason"] == "released"


async def test_lock_that_expires_during_write_is_reported_as_expired(open_session: Open) -> None:
    handle = await open_session(command=("sh", "-c", "stty raw -echo; echo ready; exec sleep 60"))
    assert (await handle.read(until_regex="ready", timeout_ms=PATIENCE_MS)).matched
    await lock(handle, "task-1")
    writing = asyncio.create_task(write(handle, "task-1", data="x" * 1_000_000))
    await until_sent(handle)
    await expire(handle, "task-1")
    with refused(ErrorCode.LOCK_LOST, "the lock expired") as caught:  # no task holds the lock afterwards
        await asyncio.wait_for(writing, PATIENCE_MS / 1000)
    assert caught.value.details["reason"] == "expired"


async def test_heartbeats_extend_the_lease(bash: SessionHandle) -> None:
    await lock(bash, "task-1", lock_ttl_ms=5_000)
    bash.task_id = "task-1"
    begun = time.monotonic()
    while time.monotonic() < begun + 5.5:
        assert (await bash.heartbeat(lock_ttl_ms=5_000)).fence == 1
        await asyncio.sleep(0.1)


@pytest.mark.also_remote("refused requests")
@pytest.mark.parametrize("fields", [{}, {"task_id": ""}, {"task_id": "t", "lock_ttl_ms": 0}, {"task_id": "t", "cols": 80}])
async def test_invalid_lock_request_is_refused(bash: SessionHandle, fields: dict[str, object]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT):
        await session(bash.controller, "lock", session_id=bash.session_id, **fields)


@pytest.mark.parametrize("action", ["lock", "unlock", "heartbeat"])
async def test_lock_action_without_task_id_is_refused(bash: SessionHandle, action: str) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, action, "task_id"):
        await session(bash.controller, action, session_id=bash.session_id)


@pytest.mark.also_remote("large request, error details")
async def test_lock_lost_during_paste_stops_it(open_session: Open) -> None:
    # the far end takes nothing: what the kernel does not take waits, and must not be sent once the lock is gone
    handle = await open_session(command=("sh", "-c", "stty raw -echo; echo ready; exec sleep 60"))
    assert (await handle.read(until_regex="ready", timeout_ms=PATIENCE_MS)).matched
    await lock(handle, "task-1")
    paste = asyncio.create_task(write(handle, "task-1", data="x" * 1_000_000))
    await until_sent(handle)
    await expire(handle, "task-1")
    await until_free(handle)
    await lock(handle, "task-2")
    with refused(ErrorCode.LOCK_LOST, "the lock expired", "the rest was not sent") as caught:
        await asyncio.wait_for(paste, PATIENCE_MS / 1000)
    sent = caught.value.details["bytes_written"]
    assert 0 < sent < 1_000_000
    (entry,) = (await session(handle.controller, "list")).sessions or []
    assert entry.bytes_sent == sent


async def test_lock_lost_during_paced_paste_leaves_clean_line(open_session: Open, tmp_path: Path) -> None:
    kept = tmp_path / "typed"  # a console that shows nothing, so that each line gets its full pace
    kept.touch()  # the shell opens it after `ready`
    command = ("sh", "-c", f"stty raw -echo; echo ready; exec cat >{kept}")
    handle = await open_session(command=command, session_type="console", device_id="rack-1")
    assert (await handle.read(until_regex="ready", timeout_ms=PATIENCE_MS)).matched
    await lock(handle, "task-1")
    lines = "one line of a configuration\n" * 2_000
    paste = asyncio.create_task(write(handle, "task-1", data=lines))

    async def begun() -> bool:
        return kept.stat().st_size > 0

    await until(begun)
    await expire(handle, "task-1")
    await until_free(handle)
    await lock(handle, "task-2")
    mine = asyncio.create_task(write(handle, "task-2", data="mine\n"))
    with refused(ErrorCode.LOCK_LOST) as caught:
        await asyncio.wait_for(paste, PATIENCE_MS / 1000)
    sent = caught.value.details["bytes_written"]
    assert 0 < sent < len(lines)
    assert (await mine).bytes_written == 5

    async def typed() -> bool:
        return kept.read_text().endswith("mine\n")

    await until(typed)
    assert kept.read_text() == lines[:sent] + "mine\n"  # read as text: each Enter was one CR


@pytest.mark.also_remote("error details with output")
async def test_lock_lost_during_run_returns_lock_lost(bash: SessionHandle) -> None:
    await lock(bash, "task-1")
    bash.task_id = "task-1"
    running = asyncio.create_task(bash.exec("echo begun; sleep 60; echo never", timeout_ms=PATIENCE_MS))
    await lose_lock(bash)
    with refused(ErrorCode.LOCK_LOST, "the lock expired", "the command continues", "block_id") as caught:
        await running
    details = caught.value.details
    assert details["reason"] == "expired"
    assert details["stdout"] == "begun\n"
    assert details["lock_holder"] is None

    await lock(bash, "task-2")
    with refused(ErrorCode.LOCKED, held_by("task-2")):
        await bash.key("ctrl_c")
    bash.task_id = "task-2"
    with refused(ErrorCode.BUSY, details["block_id"], "sleep 60", NextStep.INTERRUPT_OR_WAIT) as caught:
        await bash.exec("echo mine")
    assert caught.value.details["block_id"] == details["block_id"]
    await bash.key("ctrl_c")
    reply = await execute(bash, block_id=details["block_id"])
    assert (reply.done_reason, reply.stdout.startswith("begun\n"), "never" in reply.stdout) == ("cancelled", True, False)
    assert (await bash.exec("echo mine")).stdout == "mine\n"


async def test_run_after_lost_lock_can_be_awaited(bash: SessionHandle, tmp_path: Path) -> None:
    release = tmp_path / "release"
    os.mkfifo(release)
    await lock(bash, "task-1")
    bash.task_id = "task-1"
    running = asyncio.create_task(bash.exec(f"echo begun; cat {release}; echo all the same", timeout_ms=PATIENCE_MS))
    await lose_lock(bash)
    with refused(ErrorCode.LOCK_LOST) as caught:
        await running
    await asyncio.to_thread(release.write_text, "")
    reply = await bash.wait(caught.value.details["block_id"], timeout_ms=PATIENCE_MS)
    assert (reply.stdout, reply.exit_code) == ("begun\nall the same\n", 0)


async def test_responses_stop_when_the_lock_is_lost(bash: SessionHandle) -> None:
    await lock(bash, "task-1")
    bash.task_id = "task-1"
    running = asyncio.create_task(
        bash.exec(
            "echo begun; read x; read -p 'really? ' y; echo $x $y",  # no question, which would end the call, before the expiry
            responses=[{"match": "really", "send": "mine\n"}],
            timeout_ms=PATIENCE_MS,
        )
    )
    await lose_lock(bash)
    with refused(ErrorCode.LOCK_LOST) as caught:
        await running
    await lock(bash, "task-2")
    await write(bash, "task-2", data="yes\n")
    assert (await read(bash, until_regex="really[?] ", cursor="0", timeout_ms=PATIENCE_MS)).matched
    assert not (await read(bash, until_regex="mine", cursor="0", timeout_ms=300)).matched
    await write(bash, "task-2", data="theirs\n")
    reply = await execute(bash, block_id=caught.value.details["block_id"], timeout_ms=PATIENCE_MS)
    assert reply.stdout.endswith("yes theirs\n")


async def test_concurrent_writes_do_not_interleave(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    one, two = b"a" * 30_000, b"b" * 30_000
    begin = int((await read(handle, timeout_ms=0)).buffer_end_cursor or 0)
    await asyncio.gather(*(write(handle, data=text.hex() + "\n") for text in (one, two, one, two)))
    await until_at(handle, begin + 120_000)
    reply = await read(handle, cursor=str(begin), max_bytes=200_000, timeout_ms=0)
    assert reply.chunk == (one + two + one + two).decode()

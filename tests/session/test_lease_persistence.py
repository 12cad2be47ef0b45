"""Lease persistence: grants are stored in meta.json at once, heartbeats later and outside the event loop."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.session.calls import lock
from ptyctl.session.clients import lock_owner
from ptyctl.session.session import Session
from ptyctl.session.transcript import meta_file
from tests.session.conftest import Connect
from tests.session.crash_simulation import restore, simulate_crash
from tests.session.scripted_session import wait_until


def stored(session: Session) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads((session.stream.transcript.folder / "meta.json").read_bytes())
    return meta


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The thread of each write of a meta.json."""
    threads: list[threading.Thread] = []
    replace = Path.replace

    def record(path: Path, target: Path) -> Path:
        threads.append(threading.current_thread())
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", record)
    return threads


async def test_heartbeats_are_written_once_and_outside_event_loop(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, writers: list[threading.Thread]
) -> None:
    monkeypatch.setattr(meta_file, "DELAY_S", 0.05)
    session = await connect(MemoryChannel())
    granted = await lock.lock(session, "one", 60.0)
    assert stored(session)["lock_until"] == granted.expires_at
    writers.clear()
    for _ in range(100):
        extended = lock.heartbeat(session, "one", 120.0)
    assert (writers, stored(session)["lock_until"]) == ([], granted.expires_at)
    await wait_until(lambda: stored(session)["lock_until"] == extended.expires_at)
    assert len(writers) == 1
    assert writers[0] is not threading.main_thread()


@pytest.mark.parametrize("action", ["lock again", "force", "unlock"])
async def test_lock_change_other_than_heartbeat_is_stored_when_call_returns(connect: Connect, action: str) -> None:
    session = await connect(MemoryChannel())
    await lock.lock(session, "one", 60.0)
    if action == "lock again":
        lease = await lock.lock(session, "one", 120.0)
    elif action == "force":
        lease = lock.take_over(session, "two", 60.0, None)
    else:
        lock.unlock(session, "one")
        assert "lock_holder" not in stored(session)
        return
    meta = stored(session)
    assert (meta["lock_holder"], meta["lock_until"], meta["fence"]) == (lease.holder.task_id, lease.expires_at, lease.fence)


@pytest.mark.parametrize(("granted_s", "extended_s"), [(1.0, 60.0), (60.0, 30.0)], ids=["about to expire", "shortened"])
async def test_heartbeat_is_stored_at_once_if_stored_lease_would_be_wrong(
    connect: Connect, granted_s: float, extended_s: float
) -> None:
    session = await connect(MemoryChannel())
    await lock.lock(session, "one", granted_s)
    lease = lock.heartbeat(session, "one", extended_s)
    assert stored(session)["lock_until"] == lease.expires_at


async def test_lease_after_crash_following_heartbeat_is_as_granted(connect: Connect, tmp_path: Path) -> None:
    session = await connect(MemoryChannel())
    lock.take_over(session, "zero", 60.0, None)
    granted = lock.take_over(session, "one", 60.0, None)
    extended = lock.heartbeat(session, "one", 600.0)
    recovered = await restore(await simulate_crash(session, tmp_path))
    lease = recovered.lease()
    assert lease is not None
    assert (lease.holder.task_id, lease.fence, recovered.leases.fence) == ("one", granted.fence, granted.fence)
    assert granted.expires_at <= lease.expires_at <= extended.expires_at
    assert recovered.leases.take_over(lock_owner("two"), 60.0, lease.expires_at - 1)[0].fence == granted.fence + 1
    await recovered.close()


@pytest.mark.parametrize("loss", ["expired", "taken_over"])
async def test_lost_lock_is_reported_by_the_next_server(connect: Connect, tmp_path: Path, loss: str) -> None:
    session = await connect(MemoryChannel(), session_type="console", device_id="rack-1")
    await lock.lock(session, "one", 0.001)
    if loss == "taken_over":
        await lock.lock(session, "one", 60.0)
        lock.take_over(session, "two", 60.0, None)
        lock.unlock(session, "two")
    else:
        await wait_until(lambda: session.lease() is None)
        await lock.lock(session, "two", 60.0)
        lock.unlock(session, "two")
    recovered = await restore(await simulate_crash(session, tmp_path))
    now = asyncio.get_running_loop().time()
    with pytest.raises(PtyctlError) as caught:
        recovered.leases.check(lock_owner("one"), True, now)
    assert (caught.value.code, caught.value.details) == (ErrorCode.LOCK_LOST, {"reason": loss})
    assert caught.value.hint == NextStep.RETAKE_LOCK
    if loss == "taken_over":
        assert "was taken over by task two" in caught.value.message
    for task in ("two", "three"):  # released it, never had it
        with pytest.raises(PtyctlError) as caught:
            recovered.leases.check(lock_owner(task), True, now)
        assert caught.value.code is ErrorCode.LOCK_REQUIRED
    await recovered.close()


@pytest.mark.parametrize("rows", [7, [7], [{}], [{"principal": "a", "task_id": "b", "reason": "no", "at": 1}]])
async def test_damaged_row_of_lost_lock_is_ignored(connect: Connect, tmp_path: Path, rows: object) -> None:
    session = await connect(MemoryChannel())
    sessions = await simulate_crash(session, tmp_path)
    path = sessions / session.session_id / "meta.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"lock_losses": rows}))
    recovered = await restore(sessions)
    assert recovered.leases.losses() == []
    await recovered.close()


async def test_postponed_write_is_dropped_when_session_is_closed(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, writers: list[threading.Thread]
) -> None:
    monkeypatch.setattr(meta_file, "DELAY_S", 0.0)
    session = await connect(MemoryChannel())
    await lock.lock(session, "one", 60.0)
    lock.heartbeat(session, "one", 120.0)
    await session.close()
    writers.clear()
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    await asyncio.sleep(0)
    assert (writers, stored(session)["state"]) == ([], "closed")


async def test_heartbeat_whose_thread_is_late_does_not_replace_a_later_one(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meta_file, "DELAY_S", 0.0)
    session = await connect(MemoryChannel())
    release, ended, write = threading.Event(), list[float](), session._meta_file._write_if_current

    def write_late(version: int, meta: dict[str, Any]) -> None:
        if meta["lock_until"] == first.expires_at:
            assert release.wait(60)
        write(version, meta)
        ended.append(meta["lock_until"])

    monkeypatch.setattr(session._meta_file, "_write_if_current", write_late)
    await lock.lock(session, "one", 60.0)
    first = lock.heartbeat(session, "one", 120.0)
    await wait_until(lambda: session._meta_file._timer is None)
    second = lock.heartbeat(session, "one", 180.0)
    await wait_until(lambda: ended == [second.expires_at])
    release.set()
    await wait_until(lambda: ended == [second.expires_at, first.expires_at])
    assert stored(session)["lock_until"] == second.expires_at


def full_disk(*_: object, **__: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_lock_that_cannot_be_stored_is_not_granted(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await connect(MemoryChannel())
    holder = lock.take_over(session, "holder", 60.0, None)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full_disk)
        for _ in range(3):
            with pytest.raises(PtyctlError, match="No space left") as refused:
                lock.take_over(session, "intruder", 60.0, "because")
            assert refused.value.code is ErrorCode.IO_ERROR
            with pytest.raises(PtyctlError, match="No space left"):
                await lock.lock(session, "holder", 600.0)
        assert session.lease() == holder
        assert session.events.since(0)[0] == []
        assert "No space left" in (session.take_notices("reader") or [""])[0]
        assert "No space left" in (session.take_notices("reader") or [""])[0], "the alarm is in each reply"
        assert "No space left" in (session.entry().alarm or "")
    restored = await restore(await simulate_crash(session, tmp_path))
    lease = restored.lease()
    assert lease is not None
    assert (lease.holder.task_id, lease.fence) == ("holder", holder.fence)
    assert lock.take_over(restored, "next", 60.0, None).fence > holder.fence


async def test_waiting_lock_that_cannot_be_stored_fails(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await connect(MemoryChannel())
    await lock.lock(session, "one", 60.0)
    waiting = asyncio.create_task(lock.lock(session, "two", 60.0, wait_s=50.0))
    await wait_until(lambda: session.leases.queue.waiting(asyncio.get_running_loop().time()) == [lock_owner("two")])
    monkeypatch.setattr(Path, "write_text", full_disk)
    lock.unlock(session, "one")
    with pytest.raises(PtyctlError, match="No space left"):
        await waiting
    assert session.lease() is None
    monkeypatch.undo()
    assert (await lock.lock(session, "three", 60.0)).fence == 2
    assert session.storage_alarm() is None


async def test_open_that_cannot_be_stored_fails(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(PtyctlError, match="No space left") as refused:
        await connect(MemoryChannel())
    assert refused.value.code is ErrorCode.IO_ERROR


async def test_removed_folder_is_reported_in_each_reply(connect: Connect) -> None:
    session = await connect(MemoryChannel())
    assert session.take_notices("reader") is None
    shutil.rmtree(session.stream.folder)
    for _ in range(2):
        assert "was removed" in (session.take_notices("reader") or [""])[0]

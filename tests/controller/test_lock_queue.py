"""Waiting for a lock in order, and taking it by force."""

from __future__ import annotations

import asyncio

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from ptyctl.api.operator import NotifyRequest
from ptyctl.api.session import SessionReply
from ptyctl.core import lease
from tests.controller.session_calls import PATIENCE_MS, execute, read, refused, session, until

pytestmark = pytest.mark.waits


async def lock(handle: SessionHandle, task_id: str, **fields: object) -> SessionReply:
    return await session(handle.controller, "lock", session_id=handle.session_id, task_id=task_id, **fields)


async def unlock(handle: SessionHandle, task_id: str) -> SessionReply:
    return await session(handle.controller, "unlock", session_id=handle.session_id, task_id=task_id)


async def queued(handle: SessionHandle, *tasks: str) -> None:
    async def all_there() -> bool:
        return (await handle.status()).queue == list(tasks)

    await until(all_there)


async def waiting(handle: SessionHandle, *tasks: str) -> list[asyncio.Task[SessionReply]]:
    """Start a call for each task, in this order; return when all wait for the lock."""
    calls = []
    for number in range(len(tasks)):
        calls.append(asyncio.create_task(lock(handle, tasks[number], wait_ms=PATIENCE_MS)))
        await queued(handle, *tasks[: number + 1])
    return calls


async def test_waiters_get_the_lock_in_order(bash: SessionHandle) -> None:
    await lock(bash, "one")
    calls = await waiting(bash, "two", "three", "four")
    holders = []
    for task in ("one", "two", "three"):
        await unlock(bash, task)
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        (call,) = done
        calls.remove(call)
        holders.append((call.result().lock_holder, call.result().fence))
    assert holders == [("two", 2), ("three", 3), ("four", 4)]


async def test_expired_lease_passes_to_next_waiter(bash: SessionHandle) -> None:
    await lock(bash, "one")
    first, second = await waiting(bash, "two", "three")
    await session(bash.controller, "heartbeat", session_id=bash.session_id, task_id="one", lock_ttl_ms=1)
    assert (await first).lock_holder == "two"
    assert not second.done()
    await unlock(bash, "two")
    assert (await second).lock_holder == "three"


@pytest.mark.also_remote("error details")
async def test_timed_out_waiter_gets_its_queue_position(bash: SessionHandle) -> None:
    await lock(bash, "one")
    await waiting(bash, "two")
    with refused(ErrorCode.LOCKED, "Session locked by task one", "number 2 in the queue") as caught:
        await lock(bash, "three", wait_ms=20)
    assert caught.value.details["queue_position"] == 2
    (call,) = await waiting(bash, "two")  # the same task again has one place
    assert (await bash.status()).queue[:1] == ["two"]
    await unlock(bash, "one")
    assert (await call).lock_holder == "two"


@pytest.mark.also_remote("cancellation")
async def test_cancelled_call_leaves_the_queue(bash: SessionHandle) -> None:
    await lock(bash, "one")
    first, second = await waiting(bash, "two", "three")
    first.cancel()
    await queued(bash, "three")
    await unlock(bash, "one")
    assert (await second).lock_holder == "three"


async def test_close_ends_waiting_lock_calls(bash: SessionHandle) -> None:
    await lock(bash, "one")
    (call,) = await waiting(bash, "two")
    await bash.close(force=True)
    with refused(ErrorCode.ALREADY_CLOSED):
        await call


async def test_unlock_leaves_the_queue(bash: SessionHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "GRACE_S", PATIENCE_MS / 1000)
    await lock(bash, "one")
    with refused(ErrorCode.LOCKED):
        await lock(bash, "two", wait_ms=20)
    await unlock(bash, "two")
    assert (await bash.status()).queue == []
    with refused(ErrorCode.LOCKED):
        await unlock(bash, "two")


async def test_waiting_call_ends_when_its_place_is_given_up(bash: SessionHandle) -> None:
    await lock(bash, "one")
    (call,) = await waiting(bash, "two")
    await unlock(bash, "two")
    with refused(ErrorCode.LOCKED, "Session locked by task one"):
        await asyncio.wait_for(call, PATIENCE_MS / 1000)


@pytest.mark.also_remote("cancellation")
async def test_cancelled_call_keeps_place_of_the_tasks_other_call(bash: SessionHandle) -> None:
    await lock(bash, "one")
    first, second = [asyncio.create_task(lock(bash, "two", wait_ms=wait)) for wait in (PATIENCE_MS, 1000)]
    await queued(bash, "two")
    first.cancel()
    with refused(ErrorCode.LOCKED, "number 1 in the queue"):
        await second


@pytest.mark.also_remote("notices in replies and errors")
async def test_force_takes_lock_and_notifies_all_tasks(bash: SessionHandle) -> None:
    await lock(bash, "one")
    (call,) = await waiting(bash, "two")
    taken = await lock(bash, "three", force=True, reason="the core is down")
    assert (taken.lock_holder, taken.fence) == ("three", 2)
    told = "taken over: task three took the lock from task one: the core is down"
    bash.task_id = "one"
    with refused(ErrorCode.LOCKED, "Session locked by task three") as caught:
        await bash.write("x")
    assert caught.value.details["notices"] == [told]
    with refused(ErrorCode.LOCKED) as caught:
        await bash.write("x")
    assert "notices" not in caught.value.details  # told once
    assert (await read(bash, timeout_ms=0, task_id="watcher")).notices == [told]
    await unlock(bash, "three")
    next_in_line = await call
    assert (next_in_line.lock_holder, next_in_line.notices) == ("two", [told])


@pytest.mark.parametrize("action", ["lock", "heartbeat", "unlock", "status", "close"])
async def test_each_action_reply_delivers_notices_once(bash: SessionHandle, action: str) -> None:
    await lock(bash, "one")
    await bash.controller.notify(NotifyRequest(session_id=bash.session_id, message="reload at noon", sender="Ana"))
    told = await session(bash.controller, action, session_id=bash.session_id, task_id="one")
    assert told.notices == ["message from Ana: reload at noon"]
    assert (await read(bash, timeout_ms=0, task_id="one")).notices is None


async def test_run_continues_when_its_lock_is_taken(bash: SessionHandle) -> None:
    await lock(bash, "one")
    bash.task_id = "one"
    call = asyncio.create_task(bash.exec("echo begun; read -r line; echo got $line", timeout_ms=PATIENCE_MS))
    assert (await read(bash, cursor="0", until_regex=r"(?m)^begun$", timeout_ms=PATIENCE_MS)).matched
    await lock(bash, "two", force=True)
    with refused(ErrorCode.LOCK_LOST, "was taken over by task two", "task two holds it now", "continues") as caught:
        await asyncio.wait_for(call, PATIENCE_MS / 1000)
    assert caught.value.details["reason"] == "taken_over"
    bash.task_id = "two"
    await bash.write("on\n")
    reply = await execute(bash, block_id=caught.value.details["block_id"])
    assert (reply.exit_code, reply.stdout.splitlines()[-1]) == (0, "got on")


@pytest.mark.parametrize("fields", [{"wait_ms": -1}, {"wait_ms": "soon"}, {"force": "please"}])
async def test_invalid_lock_wait_is_refused(bash: SessionHandle, fields: dict[str, object]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT):
        await lock(bash, "one", **fields)


@pytest.mark.also_remote("many concurrent calls on one connection")
async def test_thirty_tasks_get_the_lock_in_order_one_at_a_time(bash: SessionHandle) -> None:
    served: list[str] = []
    holding = 0

    async def use(task: str) -> None:
        nonlocal holding
        await lock(bash, task, wait_ms=PATIENCE_MS)
        holding += 1
        assert holding == 1
        served.append(task)
        await asyncio.sleep(0)
        holding -= 1
        await unlock(bash, task)

    await lock(bash, "first")
    names = [f"task-{number}" for number in range(30)]
    calls = []
    for number, name in enumerate(names):
        calls.append(asyncio.create_task(use(name)))
        await queued(bash, *names[: number + 1])
    await unlock(bash, "first")
    await asyncio.gather(*calls)
    assert served == names

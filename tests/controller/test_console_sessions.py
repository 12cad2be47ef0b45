"""Console sessions: one per device_id, returned by later opens, reconnected when the connection is lost."""

from __future__ import annotations

import asyncio

import pytest

from ptyctl.api import Controller, ErrorCode
from ptyctl.api.errors import NextStep
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import BASH, PATIENCE_MS, Open, read, refused, session, until, until_ended

CONSOLE = {"session_type": "console", "device_id": "rack-1"}


async def lock(handle: SessionHandle, task_id: str = "task-1") -> None:
    handle.task_id = task_id
    await handle.lock()


@pytest.mark.also_remote("reply of an open")
async def test_second_open_returns_the_same_session(open_session: Open) -> None:
    one = await open_session(**CONSOLE, acquire_lock=True, task_id="task-1")
    assert one.opened.existing_session_id is None
    await one.write("echo here\n")
    await one.read(until_regex="here\n", timeout_ms=PATIENCE_MS)
    two = await open_session(**CONSOLE, acquire_lock=True, task_id="task-2")
    assert two.session_id == one.session_id
    reply = two.opened
    assert reply.existing_session_id == one.session_id
    assert (reply.lock_acquired, reply.lock_holder) == (False, "task-1")
    assert reply.lock_expires_at is not None
    assert reply.state == "open"
    assert int(reply.next_cursor or 0) > 0  # new output follows it; the history precedes it


@pytest.mark.also_remote("concurrent calls")
async def test_concurrent_opens_make_one_session(open_session: Open, controller: Controller) -> None:
    handles = await asyncio.gather(*(open_session(**CONSOLE) for _ in range(20)))
    assert len({handle.session_id for handle in handles}) == 1
    assert sum(handle.opened.existing_session_id is None for handle in handles) == 1
    assert len((await session(controller, "list")).sessions or []) == 1


async def test_two_devices_have_two_sessions(open_session: Open) -> None:
    one = await open_session(**CONSOLE)
    two = await open_session(**{**CONSOLE, "device_id": "rack-2"})
    assert one.session_id != two.session_id


async def test_normal_session_is_never_shared(open_session: Open) -> None:
    assert (await open_session()).session_id != (await open_session()).session_id


@pytest.mark.also_remote("error details")
@pytest.mark.parametrize("fields", [{"protocol": "telnet", "host": "192.0.2.1"}, {"protocol": "ssh", "host": "192.0.2.1"}])
async def test_open_at_another_address_is_refused(open_session: Open, controller: Controller, fields: dict[str, str]) -> None:
    one = await open_session(**CONSOLE)
    with refused(ErrorCode.INVALID_ARGUMENT, "rack-1", "local") as caught:
        await session(controller, "open", **fields, **CONSOLE)
    assert caught.value.details["existing_session_id"] == one.session_id
    assert (await one.status()).state == "open"


async def test_open_after_close_makes_a_new_session(open_session: Open) -> None:
    one = await open_session(**CONSOLE)
    await one.close()
    two = await open_session(**CONSOLE)
    assert two.session_id != one.session_id
    assert two.opened.existing_session_id is None


async def test_failed_open_leaves_device_id_free(open_session: Open) -> None:
    with refused(ErrorCode.CONNECT_FAILED):
        await open_session(**CONSOLE, command=("no-such-program",))
    assert (await open_session(**CONSOLE)).opened.existing_session_id is None


async def test_open_reconnects_dead_console(open_session: Open, controller: Controller) -> None:
    one = await open_session(**CONSOLE)
    await lock(one)
    await one.exec("echo before")
    assert (await one.exec("exit 3")).exit_code == 3
    reply = await one.read(until_regex="never", timeout_ms=PATIENCE_MS)
    assert reply.eof is True
    cursor = one.cursor
    assert (await one.status()).state == "eof"
    with refused(ErrorCode.REMOTE_CLOSED, "exited with 3", NextStep.OPEN_SESSION):
        await one.write("echo lost\n")

    two = await open_session(**CONSOLE, task_id="task-2")
    assert two.session_id == one.session_id
    assert (two.opened.state, two.opened.next_cursor) == ("open", cursor)
    assert any("reconnected" in notice for notice in two.opened.notices or [])
    (entry,) = (await session(controller, "list")).sessions or []
    assert (entry.incarnation, entry.lock_holder) == (2, "task-1")

    after = await one.exec("echo after")  # the lease and the cursor stay valid
    assert (after.stdout, after.exit_code) == ("after\n", 0)
    reply = await one.read(timeout_ms=0)
    assert "after\n" in (reply.chunk or "")
    assert "before" not in (reply.chunk or "")
    assert "before\n" in ((await read(one, cursor="0", timeout_ms=0)).chunk or "")


@pytest.mark.also_remote("notices")
async def test_notice_is_delivered_once_to_each_task(open_session: Open) -> None:
    one = await open_session(**CONSOLE)
    await lock(one)
    await one.exec("exit")
    await open_session(**CONSOLE, task_id="task-2")
    assert any("reconnected" in notice for notice in (await one.status()).notices or [])
    assert (await one.status()).notices is None
    assert (await read(one, timeout_ms=0, task_id="task-3")).notices
    assert (await read(one, timeout_ms=0, task_id="task-2")).notices is None  # its open reported it


async def test_reconnect_ends_program_that_lost_its_terminal(open_session: Open) -> None:
    script = "echo $$; exec >/dev/null 2>&1 </dev/null; exec sleep 60"
    one = await open_session(**CONSOLE, command=("sh", "-c", script))
    first = (await one.read(until_regex=r"\d+\n", timeout_ms=PATIENCE_MS)).chunk or ""
    await until_ended(one)
    two = await open_session(**CONSOLE)
    await lock(two)
    assert "No such process" in (await two.exec(f"kill -0 {first.strip()}")).stdout


async def test_failed_reconnect_can_be_repeated(open_session: Open, controller: Controller) -> None:
    one = await open_session(**CONSOLE, command=("sh", "-c", "echo once"))
    await until_ended(one)
    for _ in range(2):
        with refused(ErrorCode.CONNECT_FAILED):
            await session(controller, "open", protocol="local", command=("no-such-program",), **CONSOLE)
        assert (await one.status()).state == "lost"
        assert (await one.read(timeout_ms=0)).eof is True
    two = await open_session(**CONSOLE)
    assert (two.session_id, two.opened.state) == (one.session_id, "open")
    assert "once" in ((await read(two, cursor="0", timeout_ms=0)).chunk or "")


async def test_output_of_all_incarnations_is_one_history(open_session: Open) -> None:
    one = await open_session(**CONSOLE, command=("sh", "-c", r"printf 'torn \033[3'"))
    await until_ended(one)
    await open_session(**CONSOLE, command=("sh", "-c", "echo 1mnew"))
    reply = await read(one, cursor="0", until_regex="new\n", timeout_ms=PATIENCE_MS)
    assert reply.chunk == "torn 1mnew\n"  # the sequence that was torn off does not reach into the new terminal


async def test_console_write_without_lock_is_refused(open_session: Open, controller: Controller) -> None:
    one = await open_session(**CONSOLE)
    for call in (lambda: one.write("x"), lambda: one.key("ctrl_c"), lambda: one.exec("echo x"), lambda: one.key("break")):
        with refused(ErrorCode.LOCK_REQUIRED, "only from the holder of its lock"):
            await call()
    one.task_id = "task-1"
    with refused(ErrorCode.LOCK_REQUIRED):
        await one.exec("echo x")
    (entry,) = (await session(controller, "list")).sessions or []
    assert entry.bytes_sent == 0
    await read(one, timeout_ms=0)  # a read needs no lock
    await one.resize(100, 30)  # nor does a resize, unless another task holds it


@pytest.mark.parametrize("loss", ["expired", "taken_over", "released"])
async def test_console_input_after_the_end_of_the_lock_names_the_reason(open_session: Open, loss: str) -> None:
    one = await open_session(**CONSOLE)
    one.task_id = "task-1"
    await one.lock(lock_ttl_ms=1 if loss == "expired" else 60_000)
    if loss == "released":
        await one.unlock()
    elif loss == "taken_over":
        await session(one.controller, "lock", session_id=one.session_id, task_id="task-2", force=True)
        await session(one.controller, "unlock", session_id=one.session_id, task_id="task-2")

    async def free() -> bool:
        return (await one.status()).lock_holder is None

    await until(free)
    (before,) = (await session(one.controller, "list")).sessions or []
    for call in (lambda: one.write("x"), lambda: one.key("ctrl_c"), lambda: one.exec("echo x"), lambda: one.key("break")):
        with refused(ErrorCode.LOCK_REQUIRED if loss == "released" else ErrorCode.LOCK_LOST) as caught:
            await call()
        if loss != "released":
            assert caught.value.details["reason"] == loss
    (entry,) = (await session(one.controller, "list")).sessions or []
    assert entry.bytes_sent == before.bytes_sent
    await one.lock()
    assert (await one.exec("echo mine", timeout_ms=PATIENCE_MS)).stdout == "mine\n"


async def test_console_with_shell_platform_reports_exit_codes(open_session: Open) -> None:
    one = await open_session(**CONSOLE, platform="linux", command=BASH, acquire_lock=True, task_id="task-1")
    assert (await one.exec("exit_with() { return $1; }; exit_with 7")).exit_code == 7

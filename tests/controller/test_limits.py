"""The named limits of clients and sessions: LIMIT_EXCEEDED with the limit's name, while others continue, and the status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.operator import WatchRequest
from ptyctl.controller.local import LocalController
from ptyctl.session.clients import Client, serving, serving_connection, user
from tests.controller.session_calls import MakeController, Open, read, refused, session, until


async def in_use(handle: SessionHandle, limit: str) -> int:
    status = await session(handle.controller, "status", session_id=handle.session_id)
    return next((use.in_use for use in status.limits or () if use.name == limit), 0)


@asynccontextmanager
async def waiting_reads(handle: SessionHandle, number: int, already: int = 0) -> AsyncIterator[None]:
    """Reads that wait, in the current client, until the end of the context."""
    reads = [asyncio.create_task(read(handle, until_regex="never", timeout_ms=50_000)) for _ in range(number)]

    async def counted() -> bool:
        return await in_use(handle, "max_session_calls") == already + number

    try:
        await until(counted)
        yield
    finally:
        for task in reads:
            task.cancel()
        await asyncio.gather(*reads, return_exceptions=True)


def limit_of(error: PtyctlError) -> tuple[ErrorCode, str, int]:
    name = error.details["limit"]
    return error.code, name, error.details[name]


async def test_calls_of_a_session_are_limited_but_a_lock_is_kept(make_controller: MakeController, open_session: Open) -> None:
    handle = await open_session(on=await make_controller(max_session_calls=2))
    lock = {"session_id": handle.session_id, "task_id": "t"}
    await session(handle.controller, "lock", **lock)
    async with waiting_reads(handle, 2):
        with refused(ErrorCode.LIMIT_EXCEEDED, "2 (max_session_calls)", "wait until") as caught:
            await read(handle)
        assert limit_of(caught.value) == (ErrorCode.LIMIT_EXCEEDED, "max_session_calls", 2)
        assert (await session(handle.controller, "heartbeat", **lock)).lock_holder == "t"
        await session(handle.controller, "unlock", **lock)
    assert (await read(handle, timeout_ms=0)).next_cursor is not None
    assert await in_use(handle, "max_session_calls") == 0


async def test_calls_of_a_client_do_not_limit_another_client(make_controller: MakeController, open_session: Open) -> None:
    handle = await open_session(on=await make_controller(max_client_calls=1))
    with serving(Client(user())):
        async with waiting_reads(handle, 1):
            with refused(ErrorCode.LIMIT_EXCEEDED, "max_client_calls"):
                await read(handle)
            with serving(Client(user())):
                async with waiting_reads(handle, 1, already=1):
                    pass
        assert (await read(handle, timeout_ms=0)).next_cursor is not None


async def test_watches_are_limited_for_a_client_and_a_session(make_controller: MakeController, open_session: Open) -> None:
    handle = await open_session(on=await make_controller(max_client_watches=1, max_session_watches=2))
    request = WatchRequest.of({"session_id": handle.session_id})
    async with AsyncExitStack() as stack:

        async def watch() -> None:
            watched = await stack.enter_async_context(aclosing(handle.controller.watch(request)))
            assert (await anext(watched)).kind == "begin"

        with serving(Client(user())):
            await watch()
            with refused(ErrorCode.LIMIT_EXCEEDED, "max_client_watches"):
                await watch()
        with serving(Client(user())):
            await watch()
        with serving(Client(user())), refused(ErrorCode.LIMIT_EXCEEDED, "max_session_watches"):
            await watch()
        assert await in_use(handle, "max_session_watches") == 2
    assert await in_use(handle, "max_session_watches") == 0


async def test_open_sessions_of_a_client_are_limited(make_controller: MakeController, open_session: Open) -> None:
    controller = await make_controller(max_client_sessions=1)
    with serving(Client(user())):
        first = await open_session(on=controller)
        with refused(ErrorCode.LIMIT_EXCEEDED, "max_client_sessions"):
            await open_session(on=controller)
        with serving(Client(user())):
            await open_session(on=controller)
        await first.close()
        await open_session(on=controller)


async def test_sessions_of_a_client_that_left_count_for_no_client(make_controller: MakeController, open_session: Open) -> None:
    controller = await make_controller()
    assert isinstance(controller, LocalController)
    with serving_connection(user()):
        await open_session(on=controller)
        assert controller.limits_in_use()["max_client_sessions"] == 1
    in_use = controller.limits_in_use()
    assert (in_use["max_client_sessions"], in_use["max_sessions"]) == (0, 1)


async def test_queue_for_the_lock_is_limited(make_controller: MakeController, open_session: Open) -> None:
    handle = await open_session(on=await make_controller(max_session_queue=1))
    lock = {"session_id": handle.session_id, "wait_ms": 50_000}
    await session(handle.controller, "lock", **lock, task_id="holder")
    waiting = asyncio.create_task(session(handle.controller, "lock", **lock, task_id="first"))

    async def queued() -> bool:
        return await in_use(handle, "max_session_queue") == 1

    await until(queued)
    with refused(ErrorCode.LIMIT_EXCEEDED, "max_session_queue"):
        await session(handle.controller, "lock", **lock, task_id="second")
    await session(handle.controller, "unlock", session_id=handle.session_id, task_id="holder")
    assert (await waiting).lock_holder == "first"


async def test_observers_beyond_the_limit_replace_the_oldest(make_controller: MakeController, open_session: Open) -> None:
    handle = await open_session(on=await make_controller(max_session_observers=2))
    for task in ("one", "two", "three"):
        await read(handle, task_id=task, timeout_ms=0)
    status = await session(handle.controller, "status", session_id=handle.session_id)
    assert status.observers == ["two", "three"]

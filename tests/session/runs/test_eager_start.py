"""`start_eagerly`: runs a coroutine until it first suspends, and creates a task only for the rest."""

from __future__ import annotations

import asyncio

import pytest

from ptyctl.session.runs.run_tasks import start_eagerly


async def test_coroutine_without_suspension_completes_without_task() -> None:
    done: list[str] = []

    async def short() -> None:
        done.append("all")

    assert start_eagerly(short(), "short") is None
    assert done == ["all"]


async def test_suspended_coroutine_is_continued_by_task() -> None:
    done, gate = list[str](), asyncio.Event()

    async def long() -> None:
        done.append("begun")
        await gate.wait()
        await asyncio.sleep(0)
        done.append("resumed")

    task = start_eagerly(long(), "long")
    assert done == ["begun"]
    gate.set()
    assert task is not None
    await task
    assert done == ["begun", "resumed"]


async def test_exception_of_awaited_future_is_raised_in_coroutine() -> None:
    awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    caught: list[str] = []

    async def asking() -> None:
        try:
            await awaited
        except ValueError as error:
            caught.append(str(error))
        await asyncio.sleep(0)

    task = start_eagerly(asking(), "asking")
    awaited.set_exception(ValueError("no"))
    assert task is not None
    await task
    assert caught == ["no"]


@pytest.mark.parametrize("started", [True, False])
async def test_cancelled_task_releases_held_lock(started: bool) -> None:
    lock = asyncio.Lock()

    async def holding() -> None:
        async with lock:
            await asyncio.Event().wait()

    task = start_eagerly(holding(), "holding")
    assert lock.locked()
    if started:
        await asyncio.sleep(0)
    assert task is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert not lock.locked()


@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("first", ["turn", "future", "event"])
async def test_cancel_at_any_suspension_raises_cancelled_error_once(first: str, turns: int) -> None:
    heard = []

    async def work() -> None:
        try:
            if first == "turn":
                await asyncio.sleep(0)
            elif first == "future":
                await asyncio.get_running_loop().create_future()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append(1)
            raise

    task = start_eagerly(work(), "work")
    assert task is not None
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait({task})
    assert (task.cancelled(), heard) == (True, [1])


async def test_exception_before_suspension_is_raised_to_caller() -> None:
    async def wrong() -> None:
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        start_eagerly(wrong(), "wrong")

"""The thread that judges long texts: principals take turns, and each has a bounded share of the queue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.limits import LIMITS
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session import verdict_thread
from ptyctl.session.clients import Client, serving
from ptyctl.session.verdict_thread import FairQueue, judge_in_thread, limits_in_use, set_limit

LIMIT = LIMITS["max_principal_verdicts"]._replace(maximum=5)


def caller(name: str) -> Client:
    return Client(Principal(name, Kind.AGENT, Role.OPERATOR))


class Thread:
    """The thread, which waits in its first judgement until `release`. `judged` has the names of the others in order."""

    def __init__(self) -> None:
        self.judged: list[str] = []
        self.release = threading.Event()
        self.entered = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def block(self) -> None:
        self._loop.call_soon_threadsafe(self.entered.set)
        self.release.wait()

    def judge(self, client: Client, name: str) -> asyncio.Task[None]:
        """Judge a text of a client."""
        with serving(client):
            return asyncio.create_task(judge_in_thread(lambda: self.judged.append(name)))


@pytest.fixture
async def thread(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Thread]:
    monkeypatch.setattr(verdict_thread._queue, "limit", LIMIT)
    thread = Thread()
    blocking = asyncio.create_task(judge_in_thread(thread.block))
    await thread.entered.wait()
    yield thread
    thread.release.set()
    await blocking


async def test_texts_of_one_principal_let_another_one_wait_for_one_of_them_only(thread: Thread) -> None:
    eager = caller("eager")
    tasks = [thread.judge(eager, f"eager {number}") for number in range(5)]
    await asyncio.sleep(0)
    tasks.append(thread.judge(caller("late"), "late"))
    await asyncio.sleep(0)
    thread.release.set()
    await asyncio.gather(*tasks)
    assert thread.judged == ["eager 0", "late", "eager 1", "eager 2", "eager 3", "eager 4"]


async def test_full_share_of_one_principal_is_busy_and_leaves_room_for_others(thread: Thread) -> None:
    eager = caller("eager")
    tasks = [thread.judge(eager, str(number)) for number in range(LIMIT.maximum + 1)]
    await asyncio.sleep(0)
    tasks.append(thread.judge(caller("late"), "late"))
    await asyncio.sleep(0)
    thread.release.set()
    with pytest.raises(PtyctlError) as caught:
        await tasks.pop(LIMIT.maximum)
    details = {"reason": "judging", "limit": LIMIT.name, LIMIT.name: LIMIT.maximum}
    assert (caught.value.code, caught.value.details, caught.value.retryable) == (ErrorCode.BUSY, details, True)
    assert caught.value.hint is not None
    await asyncio.gather(*tasks)


async def test_text_of_cancelled_call_is_not_judged_and_takes_no_share(thread: Thread) -> None:
    client = caller("eager")
    cancelled = [thread.judge(client, "cancelled") for _ in range(LIMIT.maximum)]
    await asyncio.sleep(0)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
    judged = thread.judge(client, "judged")
    await asyncio.sleep(0)
    thread.release.set()
    await judged
    assert thread.judged == ["judged"]


async def test_wait_for_other_texts_is_no_part_of_the_time_for_the_verdict(
    thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_thread, "TURN_WAIT_S", 0.0)
    with pytest.raises(PtyctlError) as caught:
        await thread.judge(caller("a"), "late")
    assert (caught.value.code, caught.value.details) == (ErrorCode.BUSY, {"reason": "judging"})
    monkeypatch.setattr(verdict_thread, "TURN_WAIT_S", 50.0)
    monkeypatch.setattr(verdict_thread, "VERDICT_WAIT_S", 0.0)
    second = threading.Event()
    waiting = asyncio.create_task(judge_in_thread(second.wait))
    await asyncio.sleep(0)
    thread.release.set()
    with pytest.raises(PtyctlError) as caught:
        await waiting
    second.set()
    monkeypatch.undo()
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED


async def test_error_of_a_judgement_is_raised_by_its_call() -> None:
    with pytest.raises(ZeroDivisionError):
        await judge_in_thread(lambda: 1 // 0)


async def test_waiting_texts_of_the_principal_with_most_of_them_are_reported(thread: Thread) -> None:
    assert limits_in_use() == {LIMIT.name: 0}
    tasks = [thread.judge(caller(name), name) for name in ("eager", "eager", "late")]
    await asyncio.sleep(0)
    assert limits_in_use() == {LIMIT.name: 2}
    set_limit(LIMIT._replace(maximum=2))
    with pytest.raises(PtyctlError, match=r"max_principal_verdicts"):
        await thread.judge(caller("eager"), "refused")
    thread.release.set()
    await asyncio.gather(*tasks)


def test_queue_without_judgements_is_empty() -> None:
    assert FairQueue().take() is None

"""Long searches run in threads; a session has one at a time."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.limits import LIMITS, UseCounter
from ptyctl.core.search import LOOP_STEPS, MatchRange, Search, compile_pattern
from ptyctl.core.spool import SpoolWindow
from ptyctl.session.clients import Client, SearchTurns, serving, user
from ptyctl.session.io import pattern_search
from ptyctl.session.io.pattern_search import find_next, search_with
from tests.session.scripted_session import wait_until


async def test_long_searches_of_one_session_leave_threads_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_search, "TURN_S", 60.0)
    pattern, release, running = compile_pattern("a", "pattern"), threading.Event(), []

    def blocked(timed: Any) -> None:
        running.append(timed)
        assert release.wait(60)

    one, other = asyncio.Lock(), asyncio.Lock()
    waiting = [asyncio.create_task(search_with(one, pattern, LOOP_STEPS + 1, blocked)) for _ in range(8)]
    assert await search_with(other, pattern, LOOP_STEPS + 1, lambda timed: timed.search(b"ba").start()) == 1
    assert len(running) <= 1
    release.set()
    await asyncio.gather(*waiting)
    assert len(running) == 8


async def test_short_search_runs_at_once() -> None:
    pattern, busy = compile_pattern("a", "pattern"), asyncio.Lock()
    await busy.acquire()
    assert await search_with(busy, pattern, 2, lambda plain: plain is pattern)


async def test_long_search_waits_a_limited_time_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_search, "TURN_S", 0.0)
    pattern, busy = compile_pattern("a", "pattern"), asyncio.Lock()
    await busy.acquire()
    with pytest.raises(PtyctlError, match="other searches") as caught:
        await search_with(busy, pattern, LOOP_STEPS + 1, lambda timed: None)
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED
    waiting = asyncio.create_task(
        search_with(busy, pattern, LOOP_STEPS + 1, lambda timed: True, asyncio.get_running_loop().time() + 60)
    )
    for _ in range(5):
        await asyncio.sleep(0)
    busy.release()
    assert await waiting


async def test_cancelled_search_keeps_its_turn_until_its_thread_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_search, "TURN_S", 60.0)
    pattern, turn, begun, release = compile_pattern("a", "pattern"), asyncio.Lock(), threading.Event(), threading.Event()

    def blocked(timed: Any) -> None:
        begun.set()
        assert release.wait(60)

    searching = asyncio.create_task(search_with(turn, pattern, LOOP_STEPS + 1, blocked))
    assert await asyncio.to_thread(begun.wait, 60)
    searching.cancel()
    await asyncio.wait({searching})
    assert searching.cancelled()
    assert turn.locked()
    release.set()
    assert await search_with(turn, pattern, LOOP_STEPS + 1, lambda timed: True)


async def test_long_searches_of_one_client_leave_threads_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_search, "TURN_S", 60.0)
    pattern, release, running = compile_pattern("a", "pattern"), threading.Event(), []

    def blocked(timed: Any) -> None:
        running.append(timed)
        assert release.wait(60)

    with serving(Client(user())):
        searches = [search_with(asyncio.Lock(), pattern, LOOP_STEPS + 1, blocked) for _ in range(12)]
        waiting = [asyncio.create_task(search) for search in searches]
    with serving(Client(user())):
        assert await search_with(asyncio.Lock(), pattern, LOOP_STEPS + 1, lambda timed: timed.search(b"ba").start()) == 1
    assert len(running) <= LIMITS["max_client_searches"].maximum
    release.set()
    await asyncio.gather(*waiting)
    assert len(running) == 12


async def test_wait_for_a_thread_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern, turn, release, begun = compile_pattern("a", "pattern"), asyncio.Lock(), threading.Event(), []

    def blocked(timed: Any) -> None:
        begun.append(timed)
        assert release.wait(60)

    monkeypatch.setattr(pattern_search, "_threads", ThreadPoolExecutor(1))
    monkeypatch.setattr(pattern_search, "TURN_S", 60.0)
    first = asyncio.create_task(search_with(asyncio.Lock(), pattern, LOOP_STEPS + 1, blocked))
    await wait_until(lambda: bool(begun))
    monkeypatch.setattr(pattern_search, "TURN_S", 0.1)
    with pytest.raises(PtyctlError, match="other searches") as caught:
        await search_with(turn, pattern, LOOP_STEPS + 1, blocked)
    assert caught.value.code is ErrorCode.LIMIT_EXCEEDED
    release.set()
    await first
    await wait_until(lambda: not turn.locked())
    assert len(begun) == 1


async def test_search_without_a_thread_fails_and_ends_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pattern, turn, searched = compile_pattern("a", "pattern"), asyncio.Lock(), list[str]()
    monkeypatch.setattr(pattern_search, "_threads", ThreadPoolExecutor(1))
    with monkeypatch.context() as system, serving(Client(user())):
        system.setattr(threading.Thread, "start", start)
        for _ in range(LIMITS["max_client_searches"].maximum + 1):
            with pytest.raises(PtyctlError, match="cannot start a thread") as caught:
                await search_with(turn, pattern, LOOP_STEPS + 1, lambda timed: searched.append("dropped"))
            assert caught.value.code is ErrorCode.LIMIT_EXCEEDED
            assert not turn.locked()
    await search_with(turn, pattern, LOOP_STEPS + 1, lambda timed: searched.append("later"))
    assert searched == ["later"]


async def test_text_is_copied_when_the_search_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    window, turn, copied = SpoolWindow(1 << 22), asyncio.Lock(), []
    window.append(b"a" * LOOP_STEPS)

    def unsearched(search: Search, window: SpoolWindow) -> SpoolWindow:
        copied.append(window.end)
        return copy(search, window)

    copy = Search.unsearched
    monkeypatch.setattr(Search, "unsearched", unsearched)
    async with turn:
        searches = [Search(compile_pattern("[xyz]+b", "pattern"), 0) for _ in range(4)]
        waiting = [asyncio.create_task(find_next(turn, search, lambda: window, float("inf"))) for search in searches]
        await wait_until(lambda: len(turn._waiters or ()) == len(waiting))
        assert copied == []
        window.append(b"xb")
    assert await asyncio.gather(*waiting) == [MatchRange(LOOP_STEPS, LOOP_STEPS + 2)] * len(waiting)
    assert copied == [LOOP_STEPS + 2] * len(waiting)


async def test_searches_in_threads_are_counted_for_their_client_and_session() -> None:
    pattern, release, begun = compile_pattern("a", "pattern"), threading.Event(), []
    limit = LIMITS["max_session_searches"]
    session, client = SearchTurns(UseCounter(limit)), Client(user())

    def blocked(timed: Any) -> None:
        begun.append(timed)
        assert release.wait(60)

    with serving(client):
        searching = [asyncio.create_task(search_with(session, pattern, LOOP_STEPS + 1, blocked)) for _ in range(2)]
    await wait_until(lambda: bool(begun))
    assert session.counter.in_use == 1
    assert client.most_used(LIMITS["max_client_searches"]) == 2
    release.set()
    await asyncio.gather(*searching)
    await wait_until(lambda: not session.counter.in_use)
    assert client.most_used(LIMITS["max_client_searches"]) == 0

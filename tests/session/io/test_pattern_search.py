"""Long searches run in threads; a session has one at a time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from ptyctl.core.search import LOOP_STEPS, compile_pattern
from ptyctl.session.io.pattern_search import search_with


async def test_long_searches_of_one_session_leave_threads_to_others() -> None:
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

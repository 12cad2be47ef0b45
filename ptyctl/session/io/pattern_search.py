"""Searches of callers' patterns: a short one at once, a long one in a thread and for a limited time.

RE2 releases the interpreter lock while it searches, so other sessions continue.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ptyctl.core.search import LOOP_STEPS, MatchRange, Search, TimedPattern, program_size
from ptyctl.core.spool import SpoolWindow

#: Limit of the processor time of one search (seconds); the call fails with LIMIT_EXCEEDED after that.
SEARCH_S = 5.0
#: Steps that a search for all matching lines takes for each byte in addition: every line may match.
LINE_STEPS = 50
#: Number of searches at a time, of all sessions. They have a lower priority than the event loop.
_THREADS = 4
_NICE = 10
_threads = ThreadPoolExecutor(_THREADS, "search", initializer=lambda: os.setpriority(os.PRIO_PROCESS, 0, _NICE))

Result = TypeVar("Result")


async def search_with(turn: asyncio.Lock, pattern: Any, size: int, search: Callable[[Any], Result]) -> Result:
    """Return `search(pattern)`, which searches `size` bytes. It must not use objects that the event loop changes.

    `turn` is the session's: it has one long search at a time, so that its patterns do not delay the searches of others.

    Raises:
        PtyctlError: LIMIT_EXCEEDED.
    """
    if size * program_size(pattern) <= LOOP_STEPS:
        return search(pattern)
    async with turn:
        run = asyncio.get_running_loop().run_in_executor
        return await run(_threads, lambda: search(TimedPattern(pattern, time.thread_time, SEARCH_S)))


async def find_next(turn: asyncio.Lock, search: Search, window: SpoolWindow) -> MatchRange | None:
    """Return the leftmost match in the part of a window that was not searched yet. Raises as `search_with`."""
    if search.steps(window) <= LOOP_STEPS:
        return search.search(window)
    part = search.unsearched(window)
    return await search_with(turn, search.pattern, LOOP_STEPS + 1, lambda pattern: search.search(part, pattern))

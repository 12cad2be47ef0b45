"""Searches of callers' patterns: a short one at once, a long one in a thread and for a limited time.

RE2 releases the interpreter lock while it searches, so other sessions continue.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.search import LOOP_STEPS, MatchRange, Search, TimedPattern, program_size
from ptyctl.core.spool import SpoolWindow

#: Limit of the processor time of one search (seconds); the call fails with LIMIT_EXCEEDED after that.
SEARCH_S = 5.0
#: Time that a search waits at least for the other long searches of its session (seconds).
TURN_S = 5.0
#: Steps that a search for all matching lines takes for each byte in addition: every line may match.
LINE_STEPS = 50
#: Number of searches at a time, of all sessions. They have a lower priority than the event loop.
_THREADS = 4
_NICE = 10
_threads = ThreadPoolExecutor(_THREADS, "search", initializer=lambda: os.setpriority(os.PRIO_PROCESS, 0, _NICE))

Result = TypeVar("Result")


async def search_with(
    turn: asyncio.Lock, pattern: Any, size: int, search: Callable[[Any], Result], deadline: float = 0.0
) -> Result:
    """Return `search(pattern)`, which searches `size` bytes. It must not use objects that the event loop changes.

    `turn` is the session's: it has one long search at a time, so that its patterns do not delay the searches of others. The
    wait for it ends at the deadline (on the loop's clock), but not before TURN_S.

    Raises:
        PtyctlError: LIMIT_EXCEEDED.
    """
    if size * program_size(pattern) <= LOOP_STEPS:
        return search(pattern)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout_at(max(deadline, loop.time() + TURN_S)):
            await turn.acquire()
    except TimeoutError:
        raise _too_many_searches() from None

    def end_turn(_: object) -> None:
        with suppress(RuntimeError):  # the loop was closed during the search
            loop.call_soon_threadsafe(turn.release)

    work = _threads.submit(lambda: search(TimedPattern(pattern, time.thread_time, SEARCH_S)))
    work.add_done_callback(end_turn)  # a search that has begun is completed after a cancellation
    return await asyncio.wrap_future(work)


async def find_next(turn: asyncio.Lock, search: Search, window: SpoolWindow, deadline: float = 0.0) -> MatchRange | None:
    """Return the leftmost match in the part of a window that was not searched yet. Deadline and errors as `search_with`."""
    if search.steps(window) <= LOOP_STEPS:
        return search.search(window)
    part = search.unsearched(window)
    return await search_with(turn, search.pattern, LOOP_STEPS + 1, lambda pattern: search.search(part, pattern), deadline)


def _too_many_searches() -> PtyctlError:
    return PtyctlError(
        ErrorCode.LIMIT_EXCEEDED,
        "other searches in this session take too long",
        hint="try again, or use simpler patterns: smaller numbers of repetitions, anchors, literal text",
    )

"""Searches of callers' patterns: a short one at once, a long one in a thread and for a limited time.

RE2 releases the interpreter lock while it searches, so other sessions continue.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.search import LOOP_STEPS, MatchRange, Search, TimedPattern, program_size
from ptyctl.core.spool import SpoolWindow
from ptyctl.session.clients import current_client

from .output_stream import OutputStream

#: Limit of the processor time of one search (seconds); the call fails with LIMIT_EXCEEDED after that.
SEARCH_S = 5.0
#: Time that a search waits at least for the other long searches of its session and its client (seconds).
TURN_S = 5.0
#: Steps that a search for all matching lines takes in addition for each line, and part of a step that each further byte takes:
#: every line may match, and a pattern may read all that follows before it is known where a match ends.
_LINE_STEPS = 400
_BYTES_PER_STEP = 16
#: Number of searches at a time, of all sessions. They have a lower priority than the event loop.
_THREADS = 8
_NICE = 10
_threads = ThreadPoolExecutor(_THREADS, "search", initializer=lambda: os.setpriority(os.PRIO_PROCESS, 0, _NICE))

Result = TypeVar("Result")
Turn = asyncio.Lock | asyncio.Semaphore


def line_steps(size: int, lines: int) -> int:
    """Return the steps that a search in `size` bytes takes in addition for `lines` matches, one in each line."""
    return lines * (_LINE_STEPS + size // _BYTES_PER_STEP)


async def search_with(
    turn: Turn, pattern: Any, size: int, search: Callable[[Any], Result], deadline: float = 0.0, *, more_steps: int = 0
) -> Result:
    """Return `search(pattern)`, which searches `size` bytes. `search` must not use objects that the event loop changes.

    `more_steps` are those that it takes whatever the pattern, of about 10 ns each, for example for each line.

    `turn` is the session's: it has max_session_searches long searches at a time, and a client max_client_searches, so that
    their patterns do not delay the searches of others. The wait for both and for a thread ends at the deadline (on the loop's
    clock), but not before TURN_S.

    Raises:
        PtyctlError: LIMIT_EXCEEDED.
    """
    if size * program_size(pattern) + more_steps <= LOOP_STEPS:
        return search(pattern)
    return await _search_in_turn(turn, pattern, lambda: search, deadline)


async def find_next(turn: Turn, search: Search, window: Callable[[], SpoolWindow], deadline: float) -> MatchRange | None:
    """Return the leftmost match in the part of a window that was not searched yet. Deadline and errors as `search_with`."""
    current = window()
    if search.steps(current) <= LOOP_STEPS:
        return search.search(current)

    def search_copy() -> Callable[[Any], MatchRange | None]:
        part = search.unsearched(window())
        return lambda pattern: search.search(part, pattern)

    return await _search_in_turn(turn, search.pattern, search_copy, deadline)


async def find_next_received(
    stream: OutputStream, search: Search, window: Callable[[], SpoolWindow], deadline: float
) -> MatchRange | None:
    """Return the next match as `find_next`, for a caller that waits for the stream before it calls again.

    Output that arrives, or the end of the stream, during a search in a thread finds no waiter: it wakes those of the next
    iteration of the event loop.
    """
    before = stream.spool_end, stream.ended
    found = await find_next(stream.search_turn, search, window, deadline)
    if (stream.spool_end, stream.ended) != before:
        asyncio.get_running_loop().call_soon(stream.notify_waiters)
    return found


async def _search_in_turn(turn: Turn, pattern: Any, prepare: Callable[[], Callable[[Any], Result]], deadline: float) -> Result:
    """Search in a thread. `prepare` returns the search at its turn: a copy of the text for each in the queue would be large."""
    loop, client = asyncio.get_running_loop(), current_client()
    latest = max(deadline, loop.time() + TURN_S)
    with ExitStack() as turns:
        try:
            async with asyncio.timeout_at(latest):
                for each in (turn,) if client is None else (client.search_turns, turn):
                    await each.acquire()
                    turns.callback(each.release)
        except TimeoutError:
            raise _too_many_searches() from None
        is_dropped = threading.Event()  # a search that no thread could be started for stays in the queue
        try:
            work = _threads.submit(_search_unless, is_dropped, prepare(), pattern)
        except RuntimeError as error:  # the system starts no more threads
            is_dropped.set()
            raise _no_thread() from error
        taken = turns.pop_all()

    def end_turns(_: object) -> None:
        with suppress(RuntimeError):  # the loop was closed during the search
            loop.call_soon_threadsafe(taken.close)

    work.add_done_callback(end_turns)  # a search that has begun is completed after a cancellation
    result = asyncio.wrap_future(work)
    try:
        await asyncio.wait({result}, timeout=latest - loop.time())
    except asyncio.CancelledError:
        result.cancel()
        raise
    if work.cancel():  # no thread has begun it
        raise _too_many_searches()
    return await result


def _search_unless(is_dropped: threading.Event, search: Callable[[Any], Result], pattern: Any) -> Result:
    """Search, in a thread, unless the call has failed."""
    if is_dropped.is_set():
        raise _no_thread()
    return search(TimedPattern(pattern, time.thread_time, SEARCH_S))


def _too_many_searches() -> PtyctlError:
    return PtyctlError(
        ErrorCode.LIMIT_EXCEEDED,
        "other searches in this session or of this client take too long",
        hint="try again, or use simpler patterns: smaller numbers of repetitions, anchors, literal text",
    )


def _no_thread() -> PtyctlError:
    return PtyctlError(
        ErrorCode.LIMIT_EXCEEDED,
        "the server cannot start a thread for the search: the system's limit of processes and threads is reached",
        hint="try again later, end processes of the server's user, or raise ulimit -u for the server",
    )

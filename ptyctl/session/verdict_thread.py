"""The thread in which the policy judges long texts: a verdict takes up to 20 µs a character.

Principals take turns: the texts of one wait for each other, and for at most one text of each other principal.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.core.limits import LIMITS, Limit

from .clients import current_principal

#: The longest text that is judged in the event loop, in characters.
LONG_TEXT = 512
#: How long a text waits for the thread, and then for its verdict (seconds).
TURN_WAIT_S = 25.0
VERDICT_WAIT_S = 25.0
#: Limit of the processor time of a verdict on many lines (seconds).
VERDICT_S = 5.0

Result = TypeVar("Result")


class _Work:
    """A judgement: `began` and `result` are set by the thread."""

    def __init__(self, judge: Callable[[], Any]) -> None:
        self.judge = judge
        self.began: Future[None] = Future()
        self.result: Future[Any] = Future()


class FairQueue:
    """Queue of judgements, in order of arrival for each principal; principals alternate. Not thread-safe.

    Attributes:
        limit: how many judgements of one principal may wait.
    """

    def __init__(self) -> None:
        self.limit = LIMITS["max_principal_verdicts"]
        self._waiting: dict[str, deque[_Work]] = {}  # the principal whose turn is next is the first one

    def set_limit(self, limit: Limit) -> None:
        """Set the limit of waiting judgements of one principal."""
        self.limit = limit

    def put(self, principal: str, work: _Work) -> None:
        """Add a judgement.

        Raises:
            PtyctlError: BUSY if too many of the principal wait.
        """
        waiting = self._waiting.setdefault(principal, deque())
        try:
            self.limit.check(len(waiting))
        except PtyctlError as error:
            raise _busy(error.message, **error.details) from None
        waiting.append(work)

    def longest(self) -> int:
        """Return the highest number of waiting judgements of one principal."""
        return max(map(len, self._waiting.values()), default=0)

    def take(self) -> _Work | None:
        """Remove and return the next judgement, or None. The other principals are next in turn."""
        for principal, waiting in self._waiting.items():
            del self._waiting[principal]
            work = waiting.popleft()
            if waiting:
                self._waiting[principal] = waiting
            return work
        return None

    def remove(self, principal: str, work: _Work) -> None:
        """Remove a judgement for which no call waits."""
        waiting = self._waiting.get(principal, deque())
        if work in waiting:
            waiting.remove(work)
        if not waiting:
            self._waiting.pop(principal, None)


#: One thread: several ones would take turns with the interpreter lock, and the event loop would wait for all of them.
_thread = ThreadPoolExecutor(1, "policy")
_queue = FairQueue()
_lock = threading.Lock()


def set_limit(limit: Limit) -> None:
    """Set the limit of the texts of one principal that wait for the thread, which all controllers of the process share."""
    _queue.set_limit(limit)


def limits_in_use() -> dict[str, int]:
    """Return the highest number of waiting texts of one principal, by the name of the limit."""
    with _lock:
        return {_queue.limit.name: _queue.longest()}


async def judge_outside_loop(judge: Callable[[], Result], size: int) -> Result:
    """Return the result of `judge`, which is called in the thread if the text is long. Raises as `judge_in_thread`."""
    return await judge_in_thread(judge) if size > LONG_TEXT else judge()


async def judge_in_thread(judge: Callable[[], Result]) -> Result:
    """Call `judge` in the thread and return its result. It must not use state that the event loop changes.

    Raises:
        PtyctlError: BUSY if other texts take too long, or too many of the principal wait; LIMIT_EXCEEDED if the verdict does.
    """
    principal, work = current_principal().name, _Work(lambda: copy.run(judge))
    copy = copy_context()
    with _lock:
        _queue.put(principal, work)
    began, result = asyncio.wrap_future(work.began), asyncio.wrap_future(work.result)
    result.add_done_callback(lambda done: done.exception())  # it may come after the call has ended
    try:
        _thread.submit(_judge_next)
        # A run may begin outside its task, which forbids asyncio.timeout.
        await asyncio.wait({began}, timeout=TURN_WAIT_S)
        if not began.done():
            raise _busy(f"the policy has judged other texts for {TURN_WAIT_S:.0f} s")
        await asyncio.wait({result}, timeout=VERDICT_WAIT_S)
    except RuntimeError as error:
        raise _busy("the server cannot start a thread for the policy's verdict") from error
    finally:
        with _lock:
            _queue.remove(principal, work)
    if not result.done():
        raise verdict_takes_too_long()
    verdict: Result = result.result()
    return verdict


def _judge_next() -> None:
    """Judge the next text; runs in the thread. The queue may be empty because the call of a text has ended."""
    with _lock:
        work = _queue.take()
    if work is None:
        return
    work.began.set_result(None)
    try:
        work.result.set_result(work.judge())
    except BaseException as error:  # noqa: BLE001 - the call raises it
        work.result.set_exception(error)


def verdict_takes_too_long() -> PtyctlError:
    """Return the error of a text that was not judged in time."""
    return PtyctlError(
        ErrorCode.LIMIT_EXCEEDED,
        "the policy needs too long to judge this text; it was not run",
        hint="send it in smaller parts, or put it into a file",
    )


def _busy(why: str, **details: Any) -> PtyctlError:
    details["reason"] = "judging"
    return PtyctlError(ErrorCode.BUSY, f"{why}; nothing was typed", details, hint=LIMITS["max_principal_verdicts"].hint)

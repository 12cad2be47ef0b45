"""A coroutine that nearly always need not wait becomes a task only where it has to: a task costs a turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


def start_eagerly(coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None] | None:
    """Runs it up to where it has to wait, in this very step; the task goes on with it from there. None where it has ended.

    As Python 3.12 does with `eager_start`, but until it first waits the task that runs it is its caller's: it must not begin
    an `asyncio.timeout` before, which would be the caller's too.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return asyncio.create_task(_GoneOn(coroutine, awaited), name=name)


class _GoneOn(Coroutine[Any, Any, None]):
    """A coroutine that waits already: whoever drives it hears first what it waits for, and tells it of any cancel."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._coroutine = coroutine
        self._first = [awaited]

    def send(self, value: Any) -> Any:
        return self._first.pop() if self._first else self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._first.clear()
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._coroutine.__await__()

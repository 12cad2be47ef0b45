"""Starting a coroutine without a task.

Python 3.12 has `asyncio.eager_task_factory` for this; this module can be replaced by it when 3.11 is no longer supported. A
task that is created for a coroutine that does not suspend costs an iteration of the event loop, about a third of a short
command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


def start_eagerly(coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None] | None:
    """Run a coroutine synchronously until it first suspends; create a task only for the rest.

    Returns None if the coroutine has finished. Until it first suspends, the coroutine runs in the caller's task, so it must not
    enter an `asyncio.timeout` before that.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return asyncio.create_task(_Suspended(coroutine, awaited), name=name)


class _Suspended(Coroutine[Any, Any, None]):
    """A suspended coroutine: yields to its new driver what it already waits for, and passes on a cancellation."""

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

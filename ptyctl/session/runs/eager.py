"""A coroutine that nearly always need not wait becomes a task only where it has to: a task costs a turn of the loop."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import Any


def begun(coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None] | None:
    """Runs it up to where it has to wait, in this very step; the task goes on with it from there. None where it has ended.

    As Python 3.12 does with `eager_start`, but until it first waits the task that runs it is its caller's: it must not begin
    an `asyncio.timeout` before, which would be the caller's too.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    task = asyncio.create_task(_gone_on(coroutine, awaited), name=name)
    task.add_done_callback(lambda done: coroutine.close())  # a task that is cancelled at once never gets to it
    return task


@types.coroutine
def _gone_on(coroutine: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    with suppress(Exception, asyncio.CancelledError):  # the coroutine hears of it from what it awaits
        yield awaited
    yield from coroutine

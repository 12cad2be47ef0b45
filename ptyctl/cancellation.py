"""Cancellation of asyncio tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


async def cancel_and_wait(*tasks: asyncio.Future[Any] | None) -> list[Any]:
    """Cancel tasks and wait until they have ended; None stands for a task that was not started.

    Returns:
        The result of each other task, or the exception with which it has ended.
    """
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    return await asyncio.gather(*started, return_exceptions=True)


@contextmanager
def keep_cancellation() -> Iterator[None]:
    """Raise CancelledError if the task was cancelled within the block, and the block has lost the cancellation.

    nats-py waits for each answer with `asyncio.wait_for`. On Python 3.11 that returns the answer if it arrives in the same
    iteration of the event loop as the cancellation (gh-86296); a loop that was cancelled would continue without end.
    """
    task = asyncio.current_task()
    requests = task.cancelling() if task is not None else 0
    try:
        yield
    except asyncio.CancelledError:
        raise
    except Exception:
        if task is not None and task.cancelling() > requests:
            raise asyncio.CancelledError from None
        raise
    if task is not None and task.cancelling() > requests:
        raise asyncio.CancelledError

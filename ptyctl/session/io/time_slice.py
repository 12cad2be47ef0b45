"""Time slices: long work in the event loop yields to other tasks after a few milliseconds."""

from __future__ import annotations

import asyncio
import time

#: How long a task may work before it yields (seconds). An iteration of the loop runs one slice of each task.
SLICE_S = 0.002
#: The clock of the slices; not that of the loop, which may be virtual.
clock = time.perf_counter


class TimeSlice:
    """Measures how long a task has worked since it last yielded."""

    def __init__(self) -> None:
        self._began = clock()

    async def yield_if_over(self) -> None:
        """Yield to the event loop if the slice is over."""
        if clock() - self._began >= SLICE_S:
            await self.yield_now()

    async def yield_now(self) -> None:
        """Yield to the event loop, and begin a new slice."""
        await asyncio.sleep(0)
        self._began = clock()

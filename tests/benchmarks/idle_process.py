"""Measures the memory of idle sessions: `python -m tests.benchmarks.idle_process CANDIDATE COUNT FIELDS`.

CANDIDATE is ours or bare, FIELDS are those of an open, as JSON. Prints the KB that each session adds to the private memory of
this process. One session is opened and closed before, so that one-time allocations are not counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from transports.process import raise_open_file_limit

from . import bare_loops

#: Time after which the work at the start of a session, such as prompt detection, is complete.
SETTLE_S = 2.0

Opened = Callable[[], AbstractAsyncContextManager[Any]]


def private_kilobytes() -> int:
    """Return the private memory of this process with mapped files: Private_Clean and Private_Dirty (proc(5), smaps_rollup)."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))


@asynccontextmanager
async def _ours(fields: dict[str, Any], count: int) -> AsyncIterator[Opened]:
    """Yield a function that opens sessions of one controller, as in a server."""
    from ptyctl import LocalController, SessionHandle
    from ptyctl.controller.settings import Settings

    @asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        async with await SessionHandle.open(controller, **fields):
            yield

    async with LocalController(Settings(max_sessions=count + 1)) as controller:
        yield opened


@asynccontextmanager
async def _bare(fields: dict[str, Any], _count: int) -> AsyncIterator[Opened]:
    yield lambda: bare_loops.session(**fields)


async def kilobytes_each(candidate_name: str, count: int, fields: dict[str, Any]) -> float:
    async with {"ours": _ours, "bare": _bare}[candidate_name](fields, count) as opened:
        async with opened():
            pass
        gc.collect()
        before = private_kilobytes()
        async with AsyncExitStack() as stack:
            for _ in range(count):
                await stack.enter_async_context(opened())
            await asyncio.sleep(SETTLE_S)
            gc.collect()
            return (private_kilobytes() - before) / count


def main() -> None:
    candidate_name, count, fields = sys.argv[1:]
    raise_open_file_limit()
    print(asyncio.run(kilobytes_each(candidate_name, int(count), json.loads(fields))))


if __name__ == "__main__":
    main()

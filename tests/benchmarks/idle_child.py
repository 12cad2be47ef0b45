"""Opens many sessions that do nothing, and tells what each costs: `python -m tests.benchmarks.idle_child WHO COUNT FIELDS`.

WHO is ours or bare, FIELDS are those of an open, as JSON. Prints the KB that each session added to this process's private
memory after one was opened and closed: what comes with the first is not the others' cost.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from . import bare, ours


def private_kilobytes() -> int:
    """Memory of this process alone, mapped files included: Private_Clean and Private_Dirty (proc(5), smaps_rollup)."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:")))


async def kilobytes_each(opened: Callable[[], AbstractAsyncContextManager[Any]], count: int) -> float:
    async with opened():
        pass
    gc.collect()
    before = private_kilobytes()
    async with AsyncExitStack() as stack:
        for _ in range(count):
            await stack.enter_async_context(opened())
        await asyncio.sleep(1)
        gc.collect()
        return (private_kilobytes() - before) / count


def main() -> None:
    who, count, fields = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    session = {"ours": ours.session, "bare": bare.session}[who]
    print(asyncio.run(kilobytes_each(partial(session, **json.loads(fields)), int(count))))


if __name__ == "__main__":
    main()

"""A client that reads from a quiet session of a daemon all the time, as a separate program.

For each line on stdin it prints how long the reads since the last line took, as a JSON list of milliseconds. The hostile
clients are in another process, so what they do themselves does not delay the reads.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ptyctl.api import IoRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir

PAUSE_S = 0.002


class QuietReader:
    """The running program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def durations(self) -> list[float]:
        """Return the durations of the reads since the last call, in ms."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        durations: list[float] = json.loads(await self._process.stdout.readline())
        return durations

    async def during(self, seconds: float) -> list[float]:
        """Return the durations of the reads in a time that starts now."""
        await self.durations()
        await asyncio.sleep(seconds)
        return await self.durations()


@asynccontextmanager
async def quiet_reader() -> AsyncIterator[QuietReader]:
    """Start the program; it uses the daemon of the environment's runtime directory."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 24
    )
    try:
        yield QuietReader(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def percentile(durations: list[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(durations, n=100)[98] if len(durations) > 1 else max(durations, default=0.0)


async def _read(controller: RemoteController, session_id: str, durations: list[float]) -> None:
    request = IoRequest.of({"session_id": session_id, "action": "read", "mode": "tail"})
    while True:
        start = time.perf_counter()
        await controller.io(request)
        durations.append((time.perf_counter() - start) * 1e3)
        await asyncio.sleep(PAUSE_S)


async def _main() -> None:
    loop, durations = asyncio.get_running_loop(), list[float]()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with await RemoteController.connect(RuntimeDir()) as controller:
        quiet = await SessionHandle.open(controller, protocol="local", command=("bash", "--norc", "--noprofile"))
        await quiet.exec("echo ready")
        reading = asyncio.create_task(_read(controller, quiet.session_id, durations))
        while await lines.readline():
            print(json.dumps(durations), flush=True)
            durations.clear()
        reading.cancel()


if __name__ == "__main__":
    asyncio.run(_main())

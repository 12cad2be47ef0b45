"""Rows hostile-*: a read in one session while another session's far end, or another client's call, is made to be expensive.

Each entry is measured between two measurements of an idle daemon. One that exceeds the limit is measured again: what the entry
causes is in each measurement, what the machine does meanwhile is not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fixtures.daemons import daemon_folder
from fixtures.hostile_output import TELNET_OUTPUT, TERMINAL_OUTPUT
from ptyctl.api import PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir

from .hostile_calls import CALLS, HostileCall, prepare
from .measurement import OURS, Plan, Result
from .quiet_reader import QuietReader, percentile, quiet_reader
from .table import Aim, Row

LIMIT_MS = 20
ATTEMPTS = 3
#: How long reads are measured, as a part of the plan's seconds.
_IDLE, _HOSTILE = 0.5, 2
#: How long a call may take to be measured completely.
_MAX_CALL_S = 5.0
_BASH = ("bash", "--norc", "--noprofile")

Work = Callable[[], Awaitable[Any]]


class _Comparison:
    """Reads from a quiet session, idle and while something else is done.

    Attributes:
        differences: by entry, the 99th percentile minus that of the idle daemon, in ms.
        idle: 99th percentiles of the idle daemon.
    """

    def __init__(self, reader: QuietReader, plan: Plan) -> None:
        self.differences: dict[str, float] = {}
        self.idle: list[float] = []
        self._reader = reader
        self._plan = plan

    async def add(self, name: str, hostile: Callable[[], AbstractAsyncContextManager[Work]]) -> None:
        """Measure an entry. `hostile()` is a context manager that yields what is to be done again and again."""
        differences: list[float] = []
        while not differences or (min(differences) > LIMIT_MS and len(differences) < ATTEMPTS):
            before = await self._idle()
            async with hostile() as work:
                p99 = percentile(await self._during(work))
            idle = percentile(before + await self._idle())
            self.idle.append(idle)
            differences.append(p99 - idle)
        self.differences[name] = min(differences)

    def result(self) -> Result:
        """Return the largest difference, and those of all entries, the largest first."""
        names = sorted(self.differences, key=lambda name: -self.differences[name])
        result = Result({OURS: [self.differences[names[0]]], "idle": self.idle})
        result.rounds.update((name, [self.differences[name]]) for name in names)
        return result

    async def _idle(self) -> list[float]:
        return await self._reader.during(_IDLE * self._plan.seconds)

    async def _during(self, work: Work) -> list[float]:
        """Return the durations of reads while `work` is done at least once, and again and again."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        async def repeat() -> None:
            while True:
                with suppress(PtyctlError):
                    await work()
                done.set()
                await asyncio.sleep(0)  # a call may be refused without waiting

        await self._reader.durations()
        end = loop.time() + _HOSTILE * self._plan.seconds
        task = asyncio.create_task(repeat())
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), _MAX_CALL_S)
        await asyncio.sleep(max(end - loop.time(), 0))
        durations = await self._reader.durations()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return durations


@asynccontextmanager
async def _daemon(plan: Plan) -> AsyncIterator[tuple[RemoteController, _Comparison]]:
    with daemon_folder() as folder:
        os.environ["PTYCTL_RUNTIME_DIR"] = str(folder)
        async with await RemoteController.connect(RuntimeDir(folder)) as controller, quiet_reader() as reader:
            yield controller, _Comparison(reader, plan)


@asynccontextmanager
async def _viewed(controller: RemoteController, **destination: Any) -> AsyncIterator[Work]:
    """Open a session; yield what looks at it as a viewer and as an agent."""
    handle = await SessionHandle.open(controller, **destination)

    async def view() -> None:
        await handle.screen()
        await handle.read(mode="tail")
        await handle.status()

    try:
        yield view
    finally:
        await handle.close(force=True)


@asynccontextmanager
async def _program(controller: RemoteController, path: Path) -> AsyncIterator[Work]:
    command = ("sh", "-c", 'while :; do cat "$0"; done', str(path))
    async with _viewed(controller, protocol="local", command=command) as view:
        yield view


@asynccontextmanager
async def _telnet_server(controller: RemoteController, output: bytes) -> AsyncIterator[Work]:
    async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while True:
                writer.write(output)
                await writer.drain()

    server = await asyncio.start_server(send, "127.0.0.1", 0)
    try:
        async with _viewed(controller, protocol="telnet", host="127.0.0.1", port=server.sockets[0].getsockname()[1]) as view:
            yield view
    finally:
        server.close()


@asynccontextmanager
async def _caller(controller: RemoteController, call: HostileCall) -> AsyncIterator[Work]:
    handle = await SessionHandle.open(controller, protocol="local", command=_BASH)
    try:
        await prepare(handle)
        yield lambda: call(handle)
    finally:
        await handle.close(force=True)  # a call may leave the lock with another task


async def _far_ends(plan: Plan) -> Result:
    async with _daemon(plan) as (controller, comparison):
        with TemporaryDirectory() as folder:
            for name, output in TERMINAL_OUTPUT.items():
                path = Path(folder) / "output"
                path.write_bytes(output)
                await comparison.add(name, partial(_program, controller, path))
        for name, output in TELNET_OUTPUT.items():
            await comparison.add(name, partial(_telnet_server, controller, output))
        return comparison.result()


async def _calls(plan: Plan) -> Result:
    async with _daemon(plan) as (controller, comparison):
        for name, call in CALLS.items():
            await comparison.add(name, partial(_caller, controller, call))
        return comparison.result()


ROWS = (
    Row(
        "hostile-far-ends",
        f"a read while each of {len(TERMINAL_OUTPUT) + len(TELNET_OUTPUT)} hostile far ends prints, p99 minus idle, the worst",
        "ms", None, (Aim("≤", LIMIT_MS),), _far_ends,
    ),
    Row(
        "hostile-calls",
        f"a read while each of {len(CALLS)} hostile calls is made, p99 minus idle, the worst",
        "ms", None, (Aim("≤", LIMIT_MS),), _calls,
    ),
)  # fmt: skip

"""Rows hostile-*: a read in one session while another session's far end, or another client's call, is made to be expensive.

Each entry is measured between two measurements of an idle daemon. Those above the limit are measured again, the worst
first, while the row has time: what the entry causes is in each measurement, what the machine does meanwhile is not.
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
from .measurement import OURS, Plan, Result, Unavailable
from .quiet_reader import QuietReader, percentile, quiet_reader
from .table import Aim, Row

LIMIT_MS = 20
ATTEMPTS = 3
#: How long a row repeats measurements, from its start, and how long one of them may take (seconds).
_ROW_S = 200.0
_ENTRY_S = 20.0
#: How long reads are measured, as a part of the plan's seconds.
_IDLE, _HOSTILE = 0.5, 2
#: How long a call may take to be measured completely.
_MAX_CALL_S = 5.0
_BASH = ("bash", "--norc", "--noprofile")

Work = Callable[[], Awaitable[Any]]
#: Makes a context manager that yields what is to be done again and again.
Hostile = Callable[[], AbstractAsyncContextManager[Work]]


class _Comparison:
    """Compares reads of a quiet session on an idle daemon with reads during other work.

    Attributes:
        idle: 99th percentiles of the idle daemon.
        missing: entries that took too long, with the reason.
    """

    def __init__(self, reader: QuietReader, plan: Plan) -> None:
        self.idle: list[float] = []
        self.missing: dict[str, str] = {}
        self._differences: dict[str, list[float]] = {}
        self._reader = reader
        self._plan = plan

    async def measure(self, entries: dict[str, Hostile]) -> Result:
        """Measure the entries. Return the largest difference, and those of all entries, the largest first.

        The difference is the 99th percentile minus that of the idle daemon, in ms; of several attempts, the smallest one.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + _ROW_S
        wanted = self._plan.entries
        entries = {name: hostile for name, hostile in entries.items() if not wanted or any(part in name for part in wanted)}
        if not entries:
            raise Unavailable(f"no entry has {' or '.join(wanted)} in its name")
        for name, hostile in entries.items():
            await self._add(name, hostile)
        while loop.time() < end and (slow := self._to_repeat()):
            for name in slow:
                if loop.time() < end:
                    await self._add(name, entries[name])
        smallest = {name: min(differences) for name, differences in self._differences.items()}
        names = sorted(smallest, key=lambda name: -smallest[name])
        result = Result({OURS: [smallest[names[0]]], "idle": self.idle}, self.missing)
        result.rounds.update((name, [smallest[name]]) for name in names)
        return result

    def _to_repeat(self) -> list[str]:
        """Return the entries above the limit that were not measured often enough, the slowest first."""
        slow = {name: min(values) for name, values in self._differences.items() if len(values) < ATTEMPTS}
        return sorted((name for name, value in slow.items() if value > LIMIT_MS), key=lambda name: -slow[name])

    async def _add(self, name: str, hostile: Hostile) -> None:
        """Measure an entry once."""
        try:
            async with asyncio.timeout(_ENTRY_S):
                before = await self._idle()
                async with hostile() as work:
                    p99 = percentile(await self._during(work))
                idle = percentile(before + await self._idle())
        except TimeoutError:
            if name not in self._differences:
                self.missing[name] = f"not measured within {_ENTRY_S:.0f} s"
            return
        self.missing.pop(name, None)
        self.idle.append(idle)
        self._differences.setdefault(name, []).append(p99 - idle)

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
            entries: dict[str, Hostile] = {}
            for number, (name, output) in enumerate(TERMINAL_OUTPUT.items()):
                path = Path(folder) / str(number)
                path.write_bytes(output)
                entries[name] = partial(_program, controller, path)
            for name, output in TELNET_OUTPUT.items():
                entries[name] = partial(_telnet_server, controller, output)
            return await comparison.measure(entries)


async def _calls(plan: Plan) -> Result:
    async with _daemon(plan) as (controller, comparison):
        return await comparison.measure({name: partial(_caller, controller, call) for name, call in CALLS.items()})


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

"""Rows hostile-*: a read in one session while another session's far end, or another client's call, is made to be expensive."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fixtures.daemons import daemon_folder
from fixtures.hostile_output import TELNET_OUTPUT, TERMINAL_OUTPUT
from ptyctl.api import IoRequest, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir

from .hostile_calls import CALLS, HostileCall, prepare
from .measurement import OURS, Plan, Result
from .table import Aim, Row

LIMIT_MS = 20
_BASH = ("bash", "--norc", "--noprofile")
#: Reads per entry, as a multiple of the plan's calls.
_READS = 3
_PAUSE_S = 0.002


class _Measured:
    """A daemon with a quiet session, whose reads are measured, and connections for the hostile side."""

    def __init__(self, runtime_dir: RuntimeDir, quiet: SessionHandle, reads: int) -> None:
        self.runtime_dir = runtime_dir
        self._request = IoRequest.of({"session_id": quiet.session_id, "action": "read", "mode": "tail"})
        self._quiet = quiet
        self._reads = reads

    async def p99(self) -> float:
        """Return the 99th percentile of reads from the quiet session, in ms."""
        durations = []
        for _ in range(self._reads):
            start = time.perf_counter()
            await self._quiet.controller.io(self._request)
            durations.append((time.perf_counter() - start) * 1e3)
            await asyncio.sleep(_PAUSE_S)
        return statistics.quantiles(durations, n=100)[98]

    async def p99_during(self, work: Callable[[], Awaitable[Any]]) -> float:
        """Return the same while `work` is done again and again."""
        began = asyncio.Event()

        async def repeat() -> None:
            while True:
                began.set()
                with suppress(PtyctlError):
                    await work()
                await asyncio.sleep(0)  # a call may be refused without waiting

        task = asyncio.create_task(repeat())
        try:
            await began.wait()
            return await self.p99()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _measured(plan: Plan) -> AsyncIterator[_Measured]:
    with daemon_folder() as folder:
        os.environ["PTYCTL_RUNTIME_DIR"] = str(folder)
        async with await RemoteController.connect(RuntimeDir(folder)) as controller:
            quiet = await SessionHandle.open(controller, protocol="local", command=_BASH)
            await quiet.exec("echo ready")
            yield _Measured(RuntimeDir(folder), quiet, _READS * plan.calls)


async def _view(handle: SessionHandle) -> None:
    """Look at a session as a viewer and as an agent."""
    await handle.screen()
    await handle.read(mode="tail")
    await handle.status()


@asynccontextmanager
async def _telnet_server(output: bytes) -> AsyncIterator[int]:
    async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while True:
                writer.write(output)
                await writer.drain()

    server = await asyncio.start_server(send, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def _result(idle: list[float], during: dict[str, float]) -> Result:
    """Return the largest difference, and the percentiles of all entries, the largest first."""
    result = Result({OURS: [max(during.values()) - statistics.median(idle)], "idle": [statistics.median(idle)]})
    result.rounds.update((name, [during[name]]) for name in sorted(during, key=lambda name: -during[name]))
    return result


async def _far_ends(plan: Plan) -> Result:
    idle, during = [], {}
    async with _measured(plan) as measured, await RemoteController.connect(measured.runtime_dir) as controller:
        with TemporaryDirectory() as folder:
            for name, output in TERMINAL_OUTPUT.items():
                path = Path(folder) / "output"
                path.write_bytes(output)
                idle.append(await measured.p99())
                command = ("sh", "-c", 'while :; do cat "$0"; done', str(path))
                handle = await SessionHandle.open(controller, protocol="local", command=command)
                during[name] = await measured.p99_during(lambda handle=handle: _view(handle))  # type: ignore[misc]
                await handle.close(force=True)
            for name, output in TELNET_OUTPUT.items():
                async with _telnet_server(output) as port:
                    handle = await SessionHandle.open(controller, protocol="telnet", host="127.0.0.1", port=port)
                    during[name] = await measured.p99_during(lambda handle=handle: _view(handle))  # type: ignore[misc]
                    await handle.close(force=True)
    return _result(idle, during)


async def _calls(plan: Plan) -> Result:
    idle, during = [], {}
    async with _measured(plan) as measured, await RemoteController.connect(measured.runtime_dir) as controller:
        for name, call in CALLS.items():
            async with await SessionHandle.open(controller, protocol="local", command=_BASH) as handle:
                await prepare(handle)
                idle.append(await measured.p99())
                during[name] = await measured.p99_during(_bind(call, handle))
    return _result(idle, during)


def _bind(call: HostileCall, handle: SessionHandle) -> Callable[[], Awaitable[Any]]:
    return lambda: call(handle)


ROWS = (
    Row(
        "hostile-far-ends",
        f"a read while each of {len(TERMINAL_OUTPUT) + len(TELNET_OUTPUT)} hostile far ends prints, p99, the worst minus idle",
        "ms", None, (Aim("≤", LIMIT_MS),), _far_ends,
    ),
    Row(
        "hostile-calls",
        f"a read while each of {len(CALLS)} hostile calls is made, p99, the worst minus idle",
        "ms", None, (Aim("≤", LIMIT_MS),), _calls,
    ),
)  # fmt: skip

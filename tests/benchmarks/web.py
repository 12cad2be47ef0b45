"""Rows web-echo, web-viewers and web-flood: the stream of the web console. The viewer of a flood runs in a separate process."""

from __future__ import annotations

import asyncio
import sys
import time
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path

from ptyctl.api.handle import SessionHandle
from ptyctl.api.operator import WatchRequest
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from tests.web.stream_client import StreamClient, stream_client, stream_server

from .exec_shells import ANSWER, BASH, COMMAND
from .measurement import OURS, Candidate, Plan, Result, TimedCall, in_milliseconds, measure, timed
from .table import Aim, Row

WATCH = "watch"
ALONE = "flood alone"
VIEWERS = 50
_IDLE_S = 1.0
_ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def _session() -> AsyncIterator[SessionHandle]:
    async with LocalController(Settings()) as controller:
        yield await SessionHandle.open(controller, protocol="local", command=BASH)


@asynccontextmanager
async def _viewers(handle: SessionHandle, count: int) -> AsyncIterator[list[StreamClient]]:
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(stream_server(handle.controller))
        clients = [await stack.enter_async_context(stream_client(address)) for _ in range(count)]
        for client in clients:
            await client.subscribe(1, f"terminal:{handle.session_id}")
            await client.message(1, "snapshot")
        yield clients


@asynccontextmanager
async def _stream_echo() -> AsyncIterator[TimedCall]:
    async with _session() as handle, _viewers(handle, 1) as (client,):

        async def call() -> str:
            await handle.write("x")
            return str((await client.until(lambda message: b"x" in message.get("data", b"")))["data"])

        yield timed(call, "x")


@asynccontextmanager
async def watch_echo() -> AsyncIterator[TimedCall]:
    async with _session() as handle:
        request = WatchRequest(session_id=handle.session_id)
        async with aclosing(handle.controller.watch(request)) as items:
            await anext(items)

            async def call() -> str:
                await handle.write("x")
                async for item in items:
                    if item.kind == "output" and b"x" in (data := b64decode(item.data_b64 or "")):
                        return str(data)
                return ""

            yield timed(call, "x")


async def _echo_run(plan: Plan) -> Result:
    """Return the extra time from a key to its echo through the stream, compared with a watch as in `attach`."""
    result = in_milliseconds(await measure([Candidate(OURS, _stream_echo), Candidate(WATCH, watch_echo)], plan))
    watch = result.rounds[WATCH]
    return Result({OURS: [ours - other for ours, other in zip(result.rounds[OURS], watch, strict=True)], WATCH: watch})


async def _viewers_run(plan: Plan) -> Result:
    """Return the processor time of each idle viewer, in milliseconds per second."""
    async with _session() as handle, _viewers(handle, VIEWERS):
        await handle.exec(COMMAND)
        values = []
        for _ in range(plan.rounds):
            started, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(_IDLE_S)
            values.append((time.process_time() - used) / (time.perf_counter() - started) * 1000 / VIEWERS)
    return Result({OURS: values})


@asynccontextmanager
async def _other_exec(*, viewed: bool) -> AsyncIterator[TimedCall]:
    """Time calls in another session of the controller while one is flooded."""
    async with _session() as handle, stream_server(handle.controller) as address:
        other = await SessionHandle.open(handle.controller, protocol="local", command=BASH)
        viewer = await _start_viewer(address, handle.session_id) if viewed else None
        await handle.write("yes 0123456789012345678901234567890123456789\n")

        async def call() -> str:
            return str((await other.exec(COMMAND)).stdout)

        try:
            yield timed(call, ANSWER)
        finally:
            if viewer is not None:
                viewer.kill()
                await viewer.wait()
            await handle.close(force=True)


async def _start_viewer(address: str, session_id: str) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "tests.benchmarks.web_viewer", address, session_id)
    viewer = await asyncio.create_subprocess_exec(*command, cwd=_ROOT, stdout=asyncio.subprocess.PIPE)
    assert viewer.stdout is not None
    assert await viewer.stdout.readline()
    return viewer


async def _flood_run(plan: Plan) -> Result:
    """Measure the two one after the other: they would slow each other."""
    ours = await measure([Candidate(OURS, lambda: _other_exec(viewed=True))], plan)
    alone = await measure([Candidate(ALONE, lambda: _other_exec(viewed=False))], plan)
    return in_milliseconds(Result(ours.rounds | alone.rounds))


ROWS = (
    Row("web-echo", "what an echo takes longer in the web console's stream", "ms", WATCH, (Aim("≤", 15),), _echo_run),
    Row("web-viewers", f"each of {VIEWERS} idle viewers, per second", "ms", None, (Aim("≤", 50),), _viewers_run),
    Row("web-flood", f"exec `{COMMAND}` beside a flood with a viewer", "ms", ALONE, (Aim("≤", 1.5, ALONE),), _flood_run),
)

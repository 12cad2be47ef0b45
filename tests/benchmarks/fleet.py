"""Rows fleet-*: two nodes of a fleet, daemons with TLS to one NATS server. The client is connected to the node alpha."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ptyctl.api.errors import PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.operator import WatchRequest
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.fleet.buckets import LEASE_TTL_S
from ptyctl.fleet.credentials import load_credentials
from ptyctl.fleet.node_lease import MARGIN_S
from ptyctl.fleet.site_state import drain_node
from tests.fleet.site_files import new_site, site_server

from .exec_shells import ANSWER, BASH, COMMAND
from .flood import one_call_per_round, sizes, waiting_cat, write_text
from .measurement import OURS, Candidate, Plan, Result, TimedCall, in_megabytes_per_second, in_milliseconds, measure, timed
from .table import Aim, Row

LOCAL, FORWARDED = "on this node", "on the other node"
NODES = ("alpha", "beta")
_START_S = 60.0
DEVICES = """
[devices.rack]
protocol = "telnet"
host = "127.0.0.1"
port = {port}
session_type = "console"
login = {{ automatic = false }}
"""


@dataclass
class Line:
    """A Telnet console that notes when it has received a byte on each of its connections."""

    port: int = 0
    first_bytes: list[float] = field(default_factory=list)
    received: asyncio.Event = field(default_factory=asyncio.Event)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"line>")
        with suppress(OSError, asyncio.CancelledError):  # cancelled at the end of the row
            if await reader.read(1):
                self.first_bytes.append(time.perf_counter())
                self.received.set()
                await reader.read()
        writer.close()


@dataclass(frozen=True, slots=True)
class Fleet:
    """The nodes' processes, and clients of them."""

    folder: Path
    line: Line
    processes: dict[str, subprocess.Popen[bytes]]
    clients: dict[str, RemoteController]


@asynccontextmanager
async def _fleet() -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ptyctl-fleet-")))
        site = new_site(folder)
        stack.enter_context(site_server(site))
        line = Line()
        server = await stack.enter_async_context(await asyncio.start_server(line.accept, "127.0.0.1", 0))
        line.port = server.sockets[0].getsockname()[1]
        (folder / "devices.toml").write_text(DEVICES.format(port=line.port))
        processes = {name: stack.enter_context(_daemon(name, folder)) for name in NODES}
        clients = {name: await stack.enter_async_context(await _connected(folder / name / "run")) for name in NODES}
        yield Fleet(folder, line, processes, clients)


@contextmanager
def _daemon(name: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    paths = {part: folder / name / part for part in ("run", "state")}
    for path in paths.values():
        path.mkdir(mode=0o700, parents=True)
    environment = {
        **os.environ,
        "PTYCTL_RUNTIME_DIR": str(paths["run"]),
        "PTYCTL_STATE_DIR": str(paths["state"]),
        "PTYCTL_DEVICES_FILE": str(folder / "devices.toml"),
    }
    command = [sys.executable, "-m", "ptyctl", "serve", "--listen", "127.0.0.1:0", "--fleet", f"{folder}/fleet/{name}.toml"]
    with (folder / name / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def _connected(runtime_dir: Path) -> RemoteController:
    async with asyncio.timeout(_START_S):
        while True:
            with suppress(PtyctlError):
                return await RemoteController.connect(RuntimeDir(runtime_dir), start=False)
            await asyncio.sleep(0.1)


@asynccontextmanager
async def _opened(fleet: Fleet, node: str, **fields: Any) -> AsyncIterator[SessionHandle]:
    """Open a session on a node, through alpha."""
    async with asyncio.timeout(_START_S):
        while True:
            try:
                handle = await SessionHandle.open(fleet.clients["alpha"], protocol="local", node=node, **fields)
            except PtyctlError as error:
                if error.details.get("delivery") != "not_sent":
                    raise
                await asyncio.sleep(0.2)  # alpha does not know the other node yet
            else:
                break
    try:
        yield handle
    finally:
        await handle.close(force=True)


@asynccontextmanager
async def _exec(fleet: Fleet, node: str) -> AsyncIterator[TimedCall]:
    async with _opened(fleet, node, command=BASH) as session:

        async def call() -> str:
            return str((await session.exec(COMMAND)).stdout)

        yield timed(call, ANSWER)


async def _exec_run(plan: Plan) -> Result:
    """Return the extra time of a forwarded exec, compared with an exec on the client's node."""
    async with _fleet() as fleet:
        both = await measure(
            [
                Candidate(LOCAL, lambda: _exec(fleet, "alpha")),
                Candidate(FORWARDED, lambda: _exec(fleet, "beta")),
            ],
            plan,
        )
    rounds = in_milliseconds(both).rounds
    more = [forwarded - local for forwarded, local in zip(rounds[FORWARDED], rounds[LOCAL], strict=True)]
    return Result({OURS: more, **rounds})


@asynccontextmanager
async def _watch(fleet: Fleet, node: str, path: Path) -> AsyncIterator[TimedCall]:
    size, _ = sizes(path)

    async def once() -> float:
        async with _opened(fleet, node, command=waiting_cat(path)) as session:
            request = WatchRequest(session_id=session.session_id)
            async with aclosing(fleet.clients["alpha"].watch(request)) as items:
                await anext(items)
                started, received = time.perf_counter(), 0
                await session.write("\n")
                async for item in items:
                    if item.kind == "output":
                        received += len(b64decode(item.data_b64 or ""))
                    if received >= size:
                        break
                seconds = time.perf_counter() - started
        assert received == size, (received, size)
        return seconds

    yield once


async def _watch_run(plan: Plan) -> Result:
    """Return the rate at which the output of the other node's session arrives, all of it."""
    with TemporaryDirectory() as folder:
        path = write_text(Path(folder) / "text")
        async with _fleet() as fleet:
            candidates = [
                Candidate(OURS, lambda: _watch(fleet, "beta", path)),
                Candidate(LOCAL, lambda: _watch(fleet, "alpha", path)),
            ]
            return in_megabytes_per_second(await measure(candidates, one_call_per_round(plan)), sizes(path)[0])


async def _drain_run(plan: Plan) -> Result:
    """Return the time of a drain with one console, in turn of one node and the other."""
    async with _fleet() as fleet:
        await SessionHandle.open(fleet.clients["alpha"], device="rack", node="alpha", acquire_lock=True, task_id="t")
        admin = load_credentials(fleet.folder / "fleet" / "admin.toml")
        taken = []
        for number in range(plan.rounds):
            node = NODES[number % 2]
            started = time.perf_counter()
            (moved,) = (await drain_node(admin, node, undo=False))["consoles"]
            taken.append((time.perf_counter() - started) * 1000)
            assert moved["why"] is None, moved
            await drain_node(admin, node, undo=True)
            await asyncio.sleep(0.5)  # the other node learns that it takes consoles again
    return Result({OURS: taken})


async def _failover_run(_plan: Plan) -> Result:
    """Return the time from the death of a console's node to the first byte of the other one, which a client asks to open it."""
    async with _fleet() as fleet:
        first = await SessionHandle.open(fleet.clients["alpha"], device="rack", node="alpha", task_id="t")
        await first.lock()
        await first.write("x")
        await fleet.line.received.wait()
        fleet.line.received.clear()
        fleet.processes["alpha"].kill()
        killed_at = time.perf_counter()
        async with asyncio.timeout(120):
            while not fleet.line.received.is_set():
                with suppress(PtyctlError):
                    moved = await SessionHandle.open(fleet.clients["beta"], device="rack", node="beta", task_id="t")
                    await moved.lock()
                    await moved.write("x")
                await asyncio.sleep(0.1)
    return Result({OURS: [(fleet.line.first_bytes[-1] - killed_at) * 1000]})


ROWS = (
    Row("fleet-exec", f"what `{COMMAND}` takes longer on another node", "ms", LOCAL, (Aim("≤", 1.5),), _exec_run),
    Row("fleet-watch", "watch 64 MB of plain text on another node", "MB/s", LOCAL, (Aim("≥", 20),), _watch_run),
    Row("fleet-drain", "drain a node with a console", "ms", None, (Aim("≤", 2000),), _drain_run),
    Row(
        "fleet-failover", "death of a node to the first byte of the next", "ms", None,
        (Aim("≤", (LEASE_TTL_S + MARGIN_S + 2) * 1000),), _failover_run,
    ),
)  # fmt: skip

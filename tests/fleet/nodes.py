"""Nodes of a fleet in the test process, each with its own state directory and NATS connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fixtures.servers.nats import NatsCluster
from ptyctl.controller.access import AccessController
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.fleet.controller import FleetController
from ptyctl.fleet.node import FleetNode
from ptyctl.fleet.node_lease import LeaseTimes

#: Short times, so that a console moves within seconds; not shorter, because a busy machine can stop a test for two.
TIMES = LeaseTimes(ttl_s=4.0, renew_s=0.4, margin_s=0.5)


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node with its controllers: `controller` for its clients, `local` behind it."""

    name: str
    controller: FleetController
    local: LocalController
    fleet: FleetNode


#: Runs a node with a name, and labels, until the end of the test.
MakeNode = Callable[..., Awaitable[RunningNode]]


@asynccontextmanager
async def running_node(
    cluster: NatsCluster,
    name: str,
    state_dir: Path,
    times: LeaseTimes = TIMES,
    *,
    devices: str = "",
    labels: tuple[str, ...] = (),
    replicas: int = 1,
    ca: Path | None = None,
) -> AsyncIterator[RunningNode]:
    """Run a node until the context ends. `devices` is the text of its inventory."""
    async with AsyncExitStack() as stack:
        client = await cluster.connect()
        stack.push_async_callback(client.close)
        node = FleetNode(client, "site", name, times=times, labels=labels, replicas=replicas, ca=ca)
        fleet = await stack.enter_async_context(node)
        yield await stack.enter_async_context(serving(fleet, name, state_dir, devices))


@asynccontextmanager
async def serving(fleet: FleetNode, name: str, state_dir: Path, devices: str = "") -> AsyncIterator[RunningNode]:
    """Let a node that was entered serve sessions until the context ends. `devices` is the text of its inventory."""
    devices_file = state_dir.with_suffix(".devices.toml")
    devices_file.write_text(devices)
    async with LocalController(Settings(state_dir=state_dir, devices_file=devices_file), ownership=fleet.ownership) as local:
        yield RunningNode(name, await fleet.serve(AccessController(local), local), local, fleet)


@asynccontextmanager
async def silent_console() -> AsyncIterator[int]:
    """Run a Telnet console that shows a prompt, and answers nothing; yield its port."""

    writers = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(b"\xff\xfb\x01\xff\xfb\x03line>")  # WILL ECHO, WILL SGA, a prompt
        await reader.read()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            for writer in writers:
                writer.transport.abort()  # the server waits for its lines as of Python 3.12


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a change of a directory, which has no event."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def until_known(node: RunningNode, *others: str) -> None:
    """Wait until a node knows that others are up."""
    await until(lambda: {row.node for row in node.fleet.nodes.up()} >= set(others))

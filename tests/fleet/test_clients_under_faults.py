"""Clients lock consoles and type on them through any node, while nodes, NATS servers, links and clocks fail.

`tests/fleet/line_history.py` checks what the consoles have received against what the calls returned.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import nats.errors
import pytest
from nats.aio.client import Client

from fixtures.daemons import daemon_folder
from fixtures.servers.nats import NatsCluster, new_cluster, port_of
from fixtures.tcp_proxy import TcpProxy, tcp_proxy
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.fleet.buckets import CLAIMS, LEASES, encode_key
from tests.fleet import served_node
from tests.fleet.line_history import Granted, Written, find_faults
from tests.fleet.node_process import NodeProcess
from tests.fleet.nodes import TIMES
from tests.fleet.typed_line import Line, running_line

T = TypeVar("T")

_DEVICE = """
[devices.{name}]
protocol = "telnet"
host = "127.0.0.1"
port = {port}
session_type = "console"
"""
#: The faults of a test run.
SHORT = ("lease expired early", "wall clock of a node stepped", "node killed", "line cut")
#: How long a client waits for an answer (seconds): longer than a node is paused.
_PATIENCE_S = 30.0
#: A write within this time of a cut may be lost with the link, although it was acknowledged (seconds).
_IN_FLIGHT_S = 10.0
#: Errors after which nothing was sent.
_REFUSALS = (ErrorCode.LOCKED, ErrorCode.LOCK_REQUIRED, ErrorCode.SESSION_MOVED, ErrorCode.NOT_FOUND, ErrorCode.ALREADY_CLOSED)


class ServedNode(NodeProcess):
    """A node's process, and the connection of the clients to it."""

    def __init__(self, name: str, folder: Path, runtime_dir: Path, proxies: list[TcpProxy]) -> None:
        self.proxies = proxies
        urls = ",".join(f"nats://127.0.0.1:{proxy.port}" for proxy in proxies)
        arguments = [urls, name, str(folder / name), str(runtime_dir), str(folder / "devices.toml")]
        super().__init__(name, served_node.run, arguments, folder / f"{name}.log")
        self._runtime_dir = RuntimeDir(runtime_dir)
        self._remote: RemoteController | None = None
        self._connecting = asyncio.Lock()

    def step_clock(self, seconds: float) -> None:
        self.write(f"{seconds}")

    async def controller(self) -> RemoteController:
        """Return the connection of the clients; open it again after it was lost. Raises PtyctlError."""
        async with self._connecting:
            if self._remote is None or not self._remote.is_connected:
                await self.disconnect()
                self._remote = await RemoteController.connect(self._runtime_dir, start=False)
            return self._remote

    async def disconnect(self) -> None:
        if self._remote is not None:
            await self._remote.aclose()


class Console:
    """A console, and the history of the calls that concern it."""

    def __init__(self, name: str, line: Line) -> None:
        self.name = name
        self.line = line
        self.written: list[Written] = []
        self.granted: list[Granted] = []
        #: When the line was cut.
        self.cuts: list[float] = []

    def cut(self) -> None:
        self.cuts.append(time.monotonic())
        self.line.disconnect()

    def faults(self) -> list[str]:
        """Return what is wrong. An acknowledged token may be lost with the line that it was sent on."""
        written = [write._replace(outcome="unknown") if self._is_on_cut_line(write) else write for write in self.written]
        return find_faults(self.line.typed, written, self.granted, has_all_writes=True, reconnects=True)

    def _is_on_cut_line(self, write: Written) -> bool:
        return any(write.began - _IN_FLIGHT_S < cut < write.ended + _IN_FLIGHT_S for cut in self.cuts) and not any(
            typed.token == write.token for typed in self.line.typed
        )

    def missing(self) -> set[str]:
        """Return the acknowledged tokens that have not arrived."""
        received = {typed.token for typed in self.line.typed}
        return {
            write.token
            for write in self.written
            if write.outcome == "acknowledged" and write.token not in received and not self._is_on_cut_line(write)
        }


class Campaign:
    """The parts of a site, and the clients that use it."""

    def __init__(self, cluster: NatsCluster, nodes: list[ServedNode], consoles: list[Console], seed: int) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.consoles = consoles
        self.between: dict[tuple[str, str], TcpProxy] = {}
        self.choose = random.Random(seed)
        #: Number of calls by action and outcome.
        self.calls: Counter[tuple[str, str]] = Counter()

    @property
    def operations(self) -> int:
        """Number of locks and writes that have ended."""
        return sum(count for (action, _), count in self.calls.items() if action in ("lock", "write"))

    def acknowledged(self) -> int:
        return self.calls["write", "done"]

    # Clients

    async def run_client(self, name: str, pause_s: float) -> None:
        """Use consoles until cancelled: open, lock, type, unlock; sometimes close."""
        choose, numbers = random.Random(f"{self.choose.random()}"), itertools.count(1)
        while True:
            await asyncio.sleep(choose.uniform(0.5, 1.5) * pause_s)
            console, node = choose.choice(self.consoles), choose.choice(self.nodes)
            with suppress(PtyctlError, TimeoutError):
                await self._use_console(name, numbers, console, node, choose)

    async def _use_console(
        self, name: str, numbers: itertools.count[int], console: Console, node: ServedNode, choose: random.Random
    ) -> None:
        controller = await node.controller()
        session = await self._call("open", SessionHandle.open(controller, device=console.name, task_id=name))
        began = time.monotonic()
        lock = await self._call("lock", session.lock(lock_ttl_ms=choose.choice([3000, 20_000]), wait_ms=5000))
        console.granted.append(Granted(name, lock.fence, began, time.monotonic()))
        for _ in range(choose.randint(1, 6)):
            await self._write(session, console, f"{name}.{next(numbers)}", lock.fence)
            await asyncio.sleep(choose.choice([0, 0.05]))
        if choose.random() < 0.02:
            await self._call("close", session.close(force=True))
        elif choose.random() < 0.9:  # otherwise the lock expires
            await self._call("unlock", session.unlock())

    async def _write(self, session: SessionHandle, console: Console, token: str, fence: int) -> None:
        began = time.monotonic()
        write = Written(token, fence, "unknown", began, float("inf"))
        try:
            await self._call("write", session.write(f"{token}\n"))
            write = write._replace(outcome="acknowledged")
        except PtyctlError as error:
            if error.code in _REFUSALS or error.details.get("delivery") == "not_sent":
                write = write._replace(outcome="refused")
            raise
        finally:
            console.written.append(write._replace(ended=time.monotonic()))

    async def _call(self, action: str, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                result = await call
        except PtyctlError as error:
            self.calls[action, error.code.value] += 1
            raise
        except TimeoutError:
            self.calls[action, "timeout"] += 1
            raise
        self.calls[action, "done"] += 1
        return result

    # Faults

    async def cause_fault(self, client: Client, name: str | None = None) -> str:
        """Cause a fault, or one of any kind; end it, and wait until clients type again. Return its name."""
        for node in self.nodes:
            await node.restart_ended()
        node = self.choose.choice(self.nodes)
        faults: dict[str, Callable[[], Awaitable[None]]] = {
            "node killed": lambda: self._kill_node(node),
            "node paused past its lease": lambda: self._pause_node(node, TIMES.ttl_s + 1.5),
            "node paused": lambda: self._pause_node(node, 1.5),
            "node cut off": lambda: self._cut(node.proxies, TcpProxy.cut),
            "requests of a node lost": lambda: self._cut(node.proxies, lambda proxy: proxy.halve(answers=True)),
            "answers to a node lost": lambda: self._cut(node.proxies, TcpProxy.halve),
            "links of a node reset": lambda: self._reset(node),
            "slow links": self._slow_down,
            "wall clock of a node stepped": lambda: self._step_clock(node),
            "lease expired early": lambda: self._expire_early(client),
            "line cut": self._cut_line,
        }
        if len(self.cluster.servers) > 1:
            faults["server killed"] = self._kill_server
            faults["server isolated"] = self._isolate_server
            faults["leader stepped down"] = lambda: self._step_down(client)
        name = name or self.choose.choice(list(faults))
        await faults[name]()
        await self.until_acknowledged(10)
        return name

    async def until_acknowledged(self, count: int) -> None:
        """Wait for a number of further writes."""
        target = self.acknowledged() + count
        async with asyncio.timeout(120):
            while self.acknowledged() < target:  # noqa: ASYNC110  (the clients have no event for it)
                await asyncio.sleep(0.05)

    async def _kill_node(self, node: ServedNode) -> None:
        await node.kill()
        await asyncio.sleep(self.choose.choice([0, TIMES.ttl_s]))
        await node.start()

    async def _pause_node(self, node: ServedNode, seconds: float) -> None:
        node.send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        node.send(signal.SIGCONT)

    async def _cut(self, proxies: list[TcpProxy], cut: Callable[[TcpProxy], None]) -> None:
        for proxy in proxies:
            cut(proxy)
        await asyncio.sleep(self.choose.choice([1.0, TIMES.ttl_s + 1.5]))
        for proxy in proxies:
            proxy.heal()

    async def _reset(self, node: ServedNode) -> None:
        for proxy in node.proxies:
            proxy.reset()

    async def _slow_down(self) -> None:
        proxies = [*self.between.values(), *(proxy for node in self.nodes for proxy in node.proxies)]
        for proxy in proxies:
            proxy.delay_s = 0.05
        await asyncio.sleep(3.0)
        for proxy in proxies:
            proxy.delay_s = 0.0

    async def _step_clock(self, node: ServedNode) -> None:
        node.step_clock(self.choose.choice([-86_400, -60, 60, 86_400]))

    async def _expire_early(self, client: Client) -> None:
        """Expire a lease as a NATS server does whose clock is stepped forward: without a marker, at any time."""
        subject = f"$KV.{LEASES}.{encode_key(self.choose.choice(self.nodes).name)}"
        with suppress(nats.errors.Error):
            await client.jetstream(timeout=1).purge_stream(f"KV_{LEASES}", subject=subject)

    async def _cut_line(self) -> None:
        self.choose.choice(self.consoles).cut()

    async def _kill_server(self) -> None:
        server = self.choose.choice(self.cluster.servers)
        server.kill()
        await asyncio.sleep(3.0)
        self.cluster.start(server)

    async def _isolate_server(self) -> None:
        name = self.choose.choice(self.cluster.servers).name
        await self._cut([proxy for names, proxy in self.between.items() if name in names], TcpProxy.cut)

    async def _step_down(self, client: Client) -> None:
        bucket = self.choose.choice((LEASES, CLAIMS))
        with suppress(nats.errors.Error):  # no leader, or no answer
            await client.request(f"$JS.API.STREAM.LEADER.STEPDOWN.KV_{bucket}", b"", timeout=1)


@asynccontextmanager
async def running_campaign(
    folder: Path, *, servers: int, nodes: int, consoles: int, clients: int, pause_s: float, seed: int
) -> AsyncIterator[tuple[Campaign, Client]]:
    """Run clients until the context ends; yield also a connection of the administrator."""
    (folder / "nats").mkdir()
    async with AsyncExitStack() as stack:
        cluster = stack.enter_context(new_cluster(folder / "nats", servers))
        between: dict[tuple[str, str], TcpProxy] = {}
        for one, two in itertools.permutations(cluster.servers, 2):
            proxy = await stack.enter_async_context(tcp_proxy(port_of(two.route)))
            between[one.name, two.name], cluster.links[one.name, two.name] = proxy, proxy.port
        for server in cluster.servers:
            cluster.start(server)
        lines = [Console(f"line{number}", await stack.enter_async_context(running_line())) for number in range(consoles)]
        (folder / "devices.toml").write_text("".join(_DEVICE.format(name=line.name, port=line.line.port) for line in lines))
        served = []
        for name in "abcde"[:nodes]:
            proxies = [await stack.enter_async_context(tcp_proxy(port_of(url))) for url in cluster.urls]
            node = ServedNode(name, folder, stack.enter_context(daemon_folder()), proxies)
            stack.push_async_callback(node.kill)
            stack.push_async_callback(node.disconnect)
            await node.start()
            served.append(node)
        client = await cluster.connect()
        stack.push_async_callback(client.close)
        campaign = Campaign(cluster, served, lines, seed)
        campaign.between = between
        tasks = [asyncio.create_task(campaign.run_client(f"c{number}", pause_s)) for number in range(clients)]
        stack.push_async_callback(_cancel, tasks)
        await campaign.until_acknowledged(1)
        yield campaign, client
        await _cancel(tasks)
        async with asyncio.timeout(30):  # the last acknowledged bytes may not have arrived yet
            while any(console.missing() for console in lines):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(error, asyncio.CancelledError), repr(error)


@pytest.mark.long
async def test_each_console_has_one_writer_at_a_time_while_parts_of_the_site_fail(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    operations: int = request.config.getoption("--calls")
    seed: int = request.config.getoption("--seed")
    is_short = operations < 1000
    sizes = {"servers": 1, "nodes": 2, "consoles": 2, "clients": 8, "pause_s": 0.3}
    if not is_short:
        sizes = {"servers": 3, "nodes": 3, "consoles": 16, "clients": 50, "pause_s": 0.6}
    faults: Counter[str] = Counter()
    async with running_campaign(tmp_path, **sizes, seed=seed) as (campaign, client):  # type: ignore[arg-type]
        for name in SHORT if is_short else ():
            await campaign.cause_fault(client, name)
        while not is_short and campaign.operations < operations:
            name = await campaign.cause_fault(client)
            faults[name] += 1
            print(f"{campaign.operations} {name}", flush=True)
        await campaign.until_acknowledged(10)
    print(dict(faults), *sorted(campaign.calls.items()), sep="\n")
    assert {console.name: found for console in campaign.consoles if (found := console.faults())} == {}

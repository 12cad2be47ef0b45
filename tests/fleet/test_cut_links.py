"""Links between nodes, NATS servers and a console are cut, halved and slowed down while nodes type."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fixtures.servers.nats import NatsCluster, NatsServer, new_cluster, port_of
from fixtures.tcp_proxy import TcpProxy, tcp_proxy
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.clock import boot_time
from tests.fleet.nodes import TIMES, running_node
from tests.fleet.typed_line import NODES, Line, TypingNode, check_history, running_line


class Behind(NatsCluster):
    """The servers of a cluster, as a node reaches them through proxies."""

    def __init__(self, proxies: list[TcpProxy]) -> None:
        super().__init__([])
        self._proxies = proxies

    @property
    def urls(self) -> list[str]:
        return [f"nats://127.0.0.1:{proxy.port}" for proxy in self._proxies]


class Site:
    """Servers, nodes and a console, with a proxy in each link."""

    def __init__(self, cluster: NatsCluster, line: Line) -> None:
        self.cluster = cluster
        self.line = line
        self.nodes: dict[str, TypingNode] = {}
        self.to_nats: dict[str, list[TcpProxy]] = {}
        self.to_line: dict[str, TcpProxy] = {}
        self.between: dict[tuple[str, str], TcpProxy] = {}

    def proxies(self) -> list[TcpProxy]:
        return [*(proxy for row in self.to_nats.values() for proxy in row), *self.to_line.values(), *self.between.values()]

    def other(self) -> str:
        """Return the node that does not own the console."""
        return NODES[1 - NODES.index(self.line.owner())]

    def heal(self) -> None:
        for proxy in self.proxies():
            proxy.heal()

    async def cut_owner(self) -> None:
        other = self.other()
        for proxy in self.to_nats[self.line.owner()]:
            proxy.cut()
        await self.line.until_typed_by(other, 20)

    async def halve_owner(self, *, answers: bool) -> None:
        other = self.other()
        for proxy in self.to_nats[self.line.owner()]:
            proxy.halve(answers=answers)
        await self.line.until_typed_by(other, 20)

    async def isolate(self, server: NatsServer) -> None:
        for names, proxy in self.between.items():
            if server.name in names:
                proxy.cut()
        await asyncio.sleep(TIMES.ttl_s + 2)  # the servers need some seconds to elect a leader: the console can stop
        await self.line.until_typed_by("ab", 1)

    async def slow_down(self) -> None:
        for proxy in self.proxies():
            proxy.delay_s = 0.05
        await self.line.until_typed_by("ab", 20)


async def cause_fault(site: Site, choose: random.Random) -> str:
    """Cause a fault; return its name. It lasts until the links are healed."""
    fault = choose.choice(["cut", "requests lost", "answers lost", "slow", *["isolate"] * bool(site.between)])
    match fault:
        case "cut":
            await site.cut_owner()
        case "requests lost" | "answers lost":
            await site.halve_owner(answers=fault == "requests lost")
        case "slow":
            await site.slow_down()
        case "isolate":
            await site.isolate(choose.choice(site.cluster.servers))
    return fault


async def type_until_refused(handle: SessionHandle, began_at: list[float]) -> None:
    """Type until that is refused; record when each write has begun."""
    async with asyncio.timeout(60):
        while True:
            began_at.append(boot_time())
            await handle.write("x")
            await asyncio.sleep(0.02)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
async def test_console_has_one_owner_at_a_time_while_links_are_cut(
    tmp_path: Path, request: pytest.FixtureRequest, seed: int
) -> None:
    rounds: int = request.config.getoption("--cuts")
    choose = random.Random(seed)
    (tmp_path / "nats").mkdir()
    async with running_line() as line, AsyncExitStack() as stack:
        cluster = stack.enter_context(new_cluster(tmp_path / "nats", 3 if rounds > 10 else 1))
        site = Site(cluster, line)
        for one in cluster.servers:
            for two in cluster.servers:
                if one is not two:
                    proxy = await stack.enter_async_context(tcp_proxy(port_of(two.route)))
                    site.between[one.name, two.name], cluster.links[one.name, two.name] = proxy, proxy.port
        for server in cluster.servers:
            cluster.start(server)
        for name in NODES:
            to_nats = [await stack.enter_async_context(tcp_proxy(port_of(url))) for url in cluster.urls]
            to_line = await stack.enter_async_context(tcp_proxy(line.port))
            site.to_nats[name], site.to_line[name] = to_nats, to_line
            site.nodes[name] = TypingNode(Behind(to_nats).urls, name, tmp_path, to_line.port)
            stack.push_async_callback(site.nodes[name].kill)
            await site.nodes[name].start()
        await line.until_typed_by("ab", 1)
        for number in range(rounds):
            fault = await cause_fault(site, choose)
            site.heal()
            await line.until_typed_by("ab", 20)
            print(f"{number} {fault}: {len(line.typed)} tokens, owner {line.owner()}")
        await check_history(line, site.nodes.values(), at_least=20 * rounds)


async def test_node_that_is_cut_off_types_nothing_past_its_deadline_and_reads_on(
    nats_server: NatsCluster, tmp_path: Path
) -> None:
    has_failed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"line>")
        await has_failed.wait()
        writer.write(b"news")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as line, AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(tcp_proxy(port_of(nats_server.urls[0])))
        node = await stack.enter_async_context(running_node(Behind([proxy]), "a", tmp_path / "a"))
        stack.callback(proxy.heal)
        port = line.sockets[0].getsockname()[1]
        handle = await SessionHandle.open(
            node.local, protocol="telnet", host="127.0.0.1", port=port, session_type="console", device_id="line", task_id="t"
        )
        await handle.lock()
        proxy.cut()
        (held,) = node.fleet.claims._held.values()
        began_at = [boot_time()]
        with pytest.raises(PtyctlError) as refused:
            await type_until_refused(handle, began_at)
        assert refused.value.code is ErrorCode.CLAIM_LOST
        assert len(began_at) > 2
        assert began_at[-2] < held.lease.deadline.at <= boot_time()
        has_failed.set()
        text = ""
        async with asyncio.timeout(30):
            while "news" not in text:
                text += (await handle.read(timeout_ms=1000)).chunk
        assert (await handle.status()).state == "open"

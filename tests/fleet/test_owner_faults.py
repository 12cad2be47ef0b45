"""Owners of a console are paused past their claims, killed, and cut off from NATS, while they type.

`tests/fleet/line_history.py` checks what the console has received.
"""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fixtures.servers.nats import NatsCluster, running_nats
from tests.fleet.nodes import TIMES
from tests.fleet.typed_line import NODES, Line, TypingNode, check_history, running_line

pytestmark = pytest.mark.waits


async def pause_owner(line: Line, nodes: dict[str, TypingNode]) -> None:
    """Pause the owner until the other node has typed; continue it, and wait until it has found out.

    It finds requests of the line that came meanwhile, and must not answer them.
    """
    owner = line.owner()
    other = NODES[1 - NODES.index(owner)]
    nodes[owner].send(signal.SIGSTOP)
    line.negotiate()
    await line.until_typed_by(other, 1)
    nodes[owner].send(signal.SIGCONT)
    await line.until_typed_by(other, 50)


async def kill_owner(line: Line, nodes: dict[str, TypingNode]) -> None:
    """Kill the owner, and start it again when the console has moved."""
    owner = line.owner()
    await nodes[owner].kill()
    await line.until_typed_by(NODES[1 - NODES.index(owner)], 20)
    await nodes[owner].start()


async def restart_nats(cluster: NatsCluster, line: Line) -> None:
    """Kill the NATS server for longer than a claim lives, and start it again."""
    (server,) = cluster.servers
    server.kill()
    await asyncio.sleep(TIMES.ttl_s + 0.5)
    cluster.start(server)
    await line.until_typed_by("ab", 20)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
async def test_console_has_one_owner_at_a_time_while_nodes_pause_and_die(
    tmp_path: Path, request: pytest.FixtureRequest, seed: int
) -> None:
    rounds: int = request.config.getoption("--pauses")
    choose = random.Random(seed)
    (tmp_path / "nats").mkdir()
    async with running_line() as line, AsyncExitStack() as stack:
        cluster = stack.enter_context(running_nats(tmp_path / "nats"))
        nodes = {name: TypingNode(cluster.urls, name, tmp_path, line.port) for name in NODES}
        for node in nodes.values():
            stack.push_async_callback(node.kill)
            await node.start()
        await line.until_typed_by("ab", 1)
        for number in range(rounds):
            await pause_owner(line, nodes)
            if number % 4 == 1:
                await (kill_owner(line, nodes) if choose.random() < 0.5 else restart_nats(cluster, line))
            print(f"{number}: {len(line.typed)} tokens, owner {line.owner()}")
        await check_history(line, nodes.values(), at_least=20 * rounds)

"""Rows fleet-memory and fleet-list: a node in a site of 300 simulated nodes with 300 sessions each, on a real NATS server."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import AsyncMock, Mock

from nats.aio.client import Client

from fixtures.servers.nats import running_nats
from ptyctl.api.session import SessionReply, SessionRequest
from ptyctl.fleet.buckets import NODES, SESSIONS, open_bucket
from ptyctl.fleet.controller import FleetController
from ptyctl.fleet.directory import NodeDirectory, NodeRow, SessionDirectory, session_key
from ptyctl.fleet.sites import FleetNodes, FleetSessions

from .idle_process import private_kilobytes
from .measurement import OURS, Plan, Result
from .table import Aim, Row

NODE_COUNT, SESSIONS_OF_EACH = 300, 300
_COUNT = NODE_COUNT * SESSIONS_OF_EACH
_POLL_S = 0.2


@asynccontextmanager
async def _directories() -> AsyncIterator[tuple[NodeDirectory, SessionDirectory, float]]:
    """Yield the complete directories of one node, and the memory that they took in KB."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ptyctl-fleet-")))
        cluster = stack.enter_context(running_nats(folder))
        client = await cluster.connect()
        stack.push_async_callback(client.close)
        buckets = {name: await open_bucket(client.jetstream(), name) for name in (NODES, SESSIONS)}
        gc.collect()
        before = private_kilobytes()
        nodes, sessions = NodeDirectory(buckets[NODES], "reader"), SessionDirectory(buckets[SESSIONS], "reader")
        following = [asyncio.create_task(directory.follow()) for directory in (nodes, sessions)]
        await _write_rows(client)
        while len(list(sessions.others())) < _COUNT:  # noqa: ASYNC110  (the directory has no event)
            await asyncio.sleep(_POLL_S)
        gc.collect()
        yield nodes, sessions, private_kilobytes() - before
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


async def _write_rows(client: Client) -> None:
    """Write the rows of all nodes, without waiting for each acknowledgement."""
    for number in range(NODE_COUNT):
        node = f"node{number}"
        row = NodeRow(node, "1", node, 0.0, SESSIONS_OF_EACH, ("dc1",), site="site")
        await client.publish(f"$KV.{NODES}.{node}", json.dumps(asdict(row)).encode())
        for index in range(SESSIONS_OF_EACH):
            key, value = _session(node, index)
            await client.publish(f"$KV.{SESSIONS}.{key}", value)
        await client.flush(timeout=60)


def _session(node: str, number: int) -> tuple[str, bytes]:
    session_id = f"20261123-052021-{node}-{number:08x}"
    entry = {
        "session_id": session_id, "protocol": "telnet", "host": f"ts-{node}", "port": 2000 + number,
        "session_type": "console", "device": f"rack{number}", "device_id": f"rack{number}-{node}", "opened_by": "agent",
        "platform": "cisco_ios", "state": "open", "mode": "idle", "observers": 0, "created_at": 1_700_000_000_000,
        "last_activity_at": 1_700_000_000_000, "bytes_received": 1000, "bytes_sent": 100, "spool_size": 1000,
        "disk_bytes": 10_000, "incarnation": 1,
    }  # fmt: skip
    return session_key(node, session_id), json.dumps({"node": node, "entry": entry}).encode()


async def _memory_run(_plan: Plan) -> Result:
    async with _directories() as (_, _, kilobytes):
        return Result({OURS: [kilobytes / _COUNT]})


async def _list_run(plan: Plan) -> Result:
    async with _directories() as (nodes, sessions, _):
        own = AsyncMock()
        own.session.side_effect = lambda request: SessionReply(action="list", sessions=[])
        fleet = FleetController(own, Mock(), Mock(), FleetNodes(nodes), FleetSessions(sessions), Mock(), AsyncMock())
        taken = []
        for _ in range(min(plan.rounds, 3)):
            started = time.process_time()
            reply = await fleet.session(SessionRequest(action="list"))
            taken.append((time.process_time() - started) * 1000)
            assert len(reply.sessions or ()) == _COUNT
        return Result({OURS: taken})


_SIZE = f"{NODE_COUNT} nodes x {SESSIONS_OF_EACH} sessions"
ROWS = (
    Row("fleet-memory", f"memory of a node for each session of {_SIZE}", "KB", None, (Aim("≤", 2),), _memory_run),
    Row("fleet-list", f"processor time of a list of {_SIZE}", "ms", None, (Aim("≤", 2000),), _list_run),
)

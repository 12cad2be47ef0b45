"""NATS connections and nodes for the tests of the fleet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from nats.aio.client import Client

from fixtures.servers.nats import NatsCluster
from tests.fleet.nodes import MakeNode, RunningNode, running_node


@pytest.fixture
async def client(nats_server: NatsCluster) -> AsyncIterator[Client]:
    """A connection to the server."""
    client = await nats_server.connect()
    yield client
    await client.close()


@pytest.fixture
def devices() -> str:
    """The inventory of the nodes of `make_node`; a module can have its own."""
    return ""


@pytest.fixture
def ca() -> Path | None:
    """The certificate of the fleet's authority for the nodes of `make_node`; a module can have its own."""
    return None


@pytest.fixture
async def make_node(nats_server: NatsCluster, tmp_path: Path, devices: str, ca: Path | None) -> AsyncIterator[MakeNode]:
    """Runs a node with a name, and labels, until the end of the test."""
    async with AsyncExitStack() as stack:

        async def make(name: str, *labels: str) -> RunningNode:
            node = running_node(nats_server, name, tmp_path / name, devices=devices, labels=labels, ca=ca)
            return await stack.enter_async_context(node)

        yield make

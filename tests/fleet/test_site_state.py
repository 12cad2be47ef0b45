"""`fleet status` and `fleet doctor`: what is degraded, also when a node writes rows that are none."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from nats.errors import NoRespondersError
from nats.js import api

from fixtures.servers.nats import NatsCluster
from ptyctl.fleet.buckets import CLAIMS, LEASES, NODES, OLD_CLAIMS, Entry, encode_key, open_bucket
from ptyctl.fleet.claim import Claim, ClaimedLock
from ptyctl.fleet.credentials import Credentials
from ptyctl.fleet.directory import NodeRow, decode_node
from ptyctl.fleet.node_lease import Renewal
from ptyctl.fleet.site_state import check_hub, check_site, read_site
from tests.fleet.nodes import running_node

ROW = NodeRow("a", "1", "host", 1.5, 2, ("dc1",), site="fra")


def stored(row: NodeRow, **changed: Any) -> Entry:
    return Entry(json.dumps({**asdict(row), **changed}).encode(), 1)


def test_row_of_a_node_is_read_also_with_fields_of_a_later_version() -> None:
    assert decode_node("a", stored(ROW, added_later=1)) == ROW


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (Entry(b"\xff", 1), "Invalid JSON"),
        (Entry(b"{}", 1), "node: Field required"),
        (stored(ROW, node="b"), "a row of node b"),
        (stored(ROW, hub_cut_since="now"), "hub_cut_since: Input should be a valid number"),
        (stored(ROW, started_at=float("nan")), "started_at"),
        (stored(ROW, policy=2**60), "policy"),
        (stored(ROW, labels=[1]), "labels.0"),
    ],
)
def test_value_that_is_no_row_of_the_node_is_refused_with_the_reason(entry: Entry, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode_node("a", entry)


async def test_node_that_is_announced_while_it_ends_is_not_up(
    nats_server: NatsCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_node(nats_server, "a", tmp_path / "a") as node:
        end = node.fleet.links.aclose

        async def announce_and_end() -> None:
            await node.fleet._announce()  # as its periodic task does
            await end()

        monkeypatch.setattr(node.fleet.links, "aclose", announce_and_end)
    assert (await read_site(Credentials(site="site", node="b", servers=tuple(nats_server.urls))))["nodes"] == []


async def test_node_with_an_invalid_row_is_reported_and_the_others_are_shown(nats_server: NatsCluster) -> None:
    client = await nats_server.connect()
    bucket = await open_bucket(client.jetstream(), NODES)
    await bucket.put("a", stored(ROW).value)
    await bucket.put("b", b'{"node": "b"}')
    await bucket.put(encode_key("c"), stored(ROW, node="c", hub_cut_since=1_000_000_000.0, policy_problem="no").value)
    await client.close()
    credentials = Credentials(site="fra", node="a", servers=tuple(nats_server.urls))
    state = await read_site(credentials)
    assert [(row["node"], row["up"]) for row in state["nodes"]] == [("a", True), ("c", True), ("b", False)]
    assert [(problem["what"], problem["since"]) for problem in state["problems"]] == [
        ("node b announces itself with an invalid row: version: Field required", None),
        ("node c does not use the fleet's newest policy: no", None),
        ("site fra is cut off from the hub, as seen by c", 1_000_000_000.0),
    ]
    checks = {check.check: check for check in await check_site(credentials)}
    assert not checks["nodes"].ok
    assert "node b announces itself with an invalid row" in checks["nodes"].message


async def test_site_with_claims_of_an_earlier_version_is_reported_by_the_doctor(nats_server: NatsCluster) -> None:
    client = await nats_server.connect()
    credentials = Credentials(site="fra", node="a", servers=tuple(nats_server.urls))
    assert "format" not in {check.check for check in await check_site(credentials)}
    await client.jetstream().create_key_value(bucket=OLD_CLAIMS)
    await client.close()
    (found,) = [check for check in await check_site(credentials) if check.check == "format"]
    assert not found.ok
    assert "stop all nodes" in found.message


async def test_status_shows_the_claims_whose_lease_is_in_force(nats_server: NatsCluster) -> None:
    client = await nats_server.connect()
    leases, claims = [await open_bucket(client.jetstream(), name) for name in (LEASES, CLAIMS)]
    await leases.put("a", Renewal("of a", "state", "1", 0.0).encode())
    lock = ClaimedLock("t", "alice", 60.0, 7)
    for console, node, lease_id in (("one", "a", "of a"), ("two", "b", "of b"), ("three", "", "")):
        await claims.put(console, Claim(node, lease_id, console, 1, "s", 0.0, lock=lock).encode())
    await client.close()
    state = await read_site(Credentials(site="fra", node="a", servers=tuple(nats_server.urls)))
    (row,) = state["consoles"]
    assert (row["device_id"], row["node"], row["session_id"], row["lease"]["holder"]) == ("one", "a", "s", "t")


def mirror(name: str, lag: int = 0) -> Mock:
    return Mock(config=api.StreamConfig(name=name), mirror=api.StreamSourceInfo(name=name, lag=lag))


@pytest.mark.parametrize(
    ("streams", "ok", "message"),
    [
        ([mirror("KV_nodes_fra", 1), mirror("KV_sessions_fra")], True, "it mirrors fra; 1 row behind"),
        ([mirror("KV_nodes_fra"), mirror("KV_sessions_fra", 5000)], False, "5000 rows behind"),
        ([mirror("KV_nodes_fra"), mirror("KV_nodes_nyc"), mirror("KV_sessions_nyc")], False, "no mirror of sessions"),
        ([], False, "no mirror of nodes, sessions"),
    ],
)
async def test_doctor_checks_that_the_hub_mirrors_the_site(streams: list[Mock], ok: bool, message: str) -> None:
    client = Mock()
    client.jetstream.return_value.streams_info = AsyncMock(return_value=streams)
    check = await check_hub(client, "fra")
    assert check.ok is ok
    assert message in check.message


async def test_doctor_reports_a_hub_that_does_not_answer() -> None:
    client = Mock()
    client.jetstream.return_value.streams_info = AsyncMock(side_effect=NoRespondersError)
    check = await check_hub(client, "fra")
    assert not check.ok
    assert "its port for leaf nodes" in check.message

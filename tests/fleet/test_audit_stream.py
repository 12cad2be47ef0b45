"""The audit rows of all nodes in one stream: read and verified on any node."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from fixtures.servers.nats import NatsCluster, port_of
from fixtures.tcp_proxy import TcpProxy, tcp_proxy
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.api.operator import AuditReply, AuditRequest
from ptyctl.audit.audit_files import AuditFiles
from ptyctl.audit.chain import FIRST, Head, append, encode, hash_of
from ptyctl.fleet.audit_stream import STREAM, AuditReader, AuditSender, NewestRows, NodeChains, add_rows, audit_subject
from tests.fleet.nodes import running_node, until_known
from tests.fleet.typing_node import RunningServers

pytestmark = pytest.mark.waits


def rows(*events: str) -> list[bytes]:
    return [encode({"ts": number, "event": event}) for number, event in enumerate(events)]


async def events(reader: AuditReader) -> list[tuple[str, str]]:
    return [(row["node"], row["event"]) for row in await reader.newest("reader", lambda row: True, 100)]


def test_tail_continues_after_a_row_and_over_files(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path)
    tail = files.tail()
    assert tail.next(FIRST, 10) == []
    files.append(rows("a", "b"), "2026-10")
    first = tail.next(FIRST, 1)
    (second,) = tail.next(hash_of(first[0]), 10)
    files.append(rows("c"), "2026-11")
    (third,) = tail.next(hash_of(second), 10)
    assert b'"c"' in third
    assert tail.next(hash_of(third), 10) == []
    assert files.tail().next(hash_of(second), 10) == [third]
    assert files.tail().next("unknown", 10) == [*first, second, third]


async def test_rows_are_sent_once_and_the_chain_of_each_node_is_verified(client: Client, tmp_path: Path) -> None:
    a, b = AuditFiles(tmp_path / "a"), AuditFiles(tmp_path / "b")
    a.append(rows("a1", "a2"), "2026-11")
    b.append(rows("b1"), "2026-11")
    reader = AuditReader(client, "site")
    assert await events(reader) == []
    for name, files in (("a", a), ("b", b)):
        await AuditSender(client, "site", name, files.tail().next).send()
    await AuditSender(client, "site", "a", a.tail().next).send()  # as after a restart
    assert sorted(await events(reader)) == [("a", "a1"), ("a", "a2"), ("b", "b1")]
    verifications = await reader.verify()
    assert {node: (verdict.head.rows, verdict.fault) for node, verdict in verifications.items()} == {
        "a": (2, None),
        "b": (1, None),
    }
    await client.jetstream().publish(audit_subject("site", "b"), b'{"ts":9,"event":"forged","prev":"0"}')
    fault = (await reader.verify())["b"].fault
    assert fault is not None
    assert (fault.file, fault.line) == ("AUDIT, node b", 2)


@pytest.mark.parametrize("cut", [TcpProxy.cut, TcpProxy.halve])
async def test_rows_recorded_while_the_servers_are_cut_off_are_sent_once_in_order(
    nats_server: NatsCluster, client: Client, tmp_path: Path, cut: Callable[[TcpProxy], None]
) -> None:
    """Either nothing reaches the servers, or their answers are lost."""
    files, recorded = AuditFiles(tmp_path), rows(*"123456")
    async with tcp_proxy(port_of(nats_server.urls[0])) as proxy:
        behind = await nats.connect(f"nats://127.0.0.1:{proxy.port}")
        sender = AuditSender(behind, "site", "a", files.tail().next)
        files.append(recorded[:2], "2026-11")
        await sender.send()
        sender._stream = behind.jetstream(timeout=0.5)
        cut(proxy)
        for month, lines in (("2026-11", recorded[2:4]), ("2026-12", recorded[4:])):
            files.append(lines, month)
            with pytest.raises(PtyctlError):
                await sender.send()
        proxy.heal()
        sender._stream = behind.jetstream()
        async with asyncio.timeout(30):
            while True:
                with suppress(PtyctlError):  # the connection is not whole yet
                    await sender.send()
                    break
        await behind.close()
    assert [event for _, event in await events(AuditReader(client, "site"))] == list("123456")
    assert (await AuditReader(client, "site").verify())["a"].fault is None


async def test_reads_of_the_stream_leave_no_consumers(client: Client, tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "a")
    files.append(rows("a1"), "2026-11")
    await AuditSender(client, "site", "a", files.tail().next).send()
    for _ in range(3):
        assert await events(AuditReader(client, "site")) == [("a", "a1")]
    async with asyncio.timeout(60):
        while (await client.jetstream().stream_info(STREAM)).state.consumer_count:  # noqa: ASYNC110  (no event)
            await asyncio.sleep(0.2)


async def test_files_that_were_changed_are_found_in_the_stream(client: Client, tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "a")
    files.append(rows("a1", "a2"), "2026-11")
    await AuditSender(client, "site", "a", files.tail().next).send()
    changed = AuditFiles(tmp_path / "changed")
    changed.append(rows("other", "a2"), "2026-11")
    await AuditSender(client, "site", "a", changed.tail().next).send()
    assert (await AuditReader(client, "site").verify())["a"].fault is not None


async def test_audit_of_a_node_has_the_rows_of_another_one_also_after_its_end(nats_server: NatsCluster, tmp_path: Path) -> None:
    async with running_node(nats_server, "b", tmp_path / "b") as b:
        async with running_node(nats_server, "a", tmp_path / "a") as a:
            await SessionHandle.open(a.controller, protocol="local", command=["cat"])
            query = AuditRequest(event="open")
            async with asyncio.timeout(30):
                while not (found := (await b.controller.audit(query)).rows):  # noqa: ASYNC110  (the stream has no event)
                    await asyncio.sleep(0.2)
        assert [row["node"] for row in found] == ["a"]
        assert (await b.controller.audit(query)).rows == found
        verdict = await b.controller.audit(AuditRequest(action="verify"))
        assert verdict.first_bad is None
        assert "a" in [node.node for node in verdict.nodes or ()]


async def test_audit_of_a_node_that_is_cut_off_has_its_own_rows_and_names_the_missing_nodes(
    nats_server: NatsCluster, tmp_path: Path
) -> None:
    async with (
        running_node(nats_server, "b", tmp_path / "b"),
        tcp_proxy(port_of(nats_server.urls[0])) as proxy,
        running_node(RunningServers([f"nats://127.0.0.1:{proxy.port}"]), "a", tmp_path / "a") as a,
    ):
        await until_known(a, "a", "b")
        await SessionHandle.open(a.controller, protocol="local", command=["cat"])
        proxy.cut()
        try:
            reply = await a.controller.audit(AuditRequest(event="open"))
            verdict = await a.controller.audit(AuditRequest(action="verify"))
        finally:
            proxy.heal()
    assert [(row["node"], row["event"]) for row in reply.rows] == [("a", "open")]
    assert reply.notices is not None
    assert "only the rows of node a are included; those of the other nodes of the site (b) are missing" in reply.notices[0]
    assert "ptyctl fleet doctor" in reply.notices[0]
    assert (verdict.first_bad, verdict.nodes, verdict.notices) == (None, None, reply.notices)
    assert verdict.verified


async def test_audit_of_a_site_with_one_node_does_not_claim_that_others_have_rows(
    nats_server: NatsCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get_no_answer(*args: object) -> None:
        raise PtyctlError(ErrorCode.IO_ERROR, "no answer")

    monkeypatch.setattr(AuditReader, "newest", get_no_answer)
    async with running_node(nats_server, "a", tmp_path / "a") as a:
        reply = await a.controller.audit(AuditRequest(event="open"))
    assert reply.notices is not None
    assert "those of other nodes of the site, if it has any, are missing: no answer" in reply.notices[0]


def test_verification_of_the_stream_keeps_no_rows() -> None:
    def lines() -> Iterator[tuple[str, bytes]]:
        heads = {"a": Head(), "b": Head()}
        for number in range(4000):
            for node, head in heads.items():
                line, heads[node] = append([encode({"ts": number, "text": "x" * 1000})], head)
                yield node, line.removesuffix(b"\n")
        yield "a", b"no row"
        yield "a", line.removesuffix(b"\n")

    chains = NodeChains()
    tracemalloc.start()
    chains.add(lines())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400_000  # the rows have 8 MB
    verifications = chains.verifications()
    assert (verifications["b"].head.rows, verifications["b"].fault) == (4000, None)
    assert verifications["a"].head.rows == 4000
    assert verifications["a"].fault is not None
    assert verifications["a"].fault.line == 4001


def test_query_of_the_stream_keeps_only_the_newest_rows() -> None:
    newest = NewestRows(3, lambda row: row["event"] != "other")
    newest.add([("a", line) for line in rows("a0", "a1", "other", "a3", "a4")])
    newest.add([("b", line) for line in (*rows("b0", "b1", "b2"), b"no row", b'{"ts":"late","event":"forged"}')])  # late
    assert [(row["node"], row["event"]) for row in newest.rows()] == [("b", "b2"), ("a", "a3"), ("a", "a4")]


async def test_stream_whose_rows_have_all_expired_has_none(client: Client, tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "a")
    files.append(rows("a1"), "2026-11")
    await AuditSender(client, "site", "a", files.tail().next).send()
    await client.jetstream().purge_stream(STREAM)
    assert await events(AuditReader(client, "site")) == []


def test_newest_rows_of_all_nodes_stay_in_order_within_the_limit() -> None:
    own, others = [{"ts": 1}, {"ts": 4}], [{"ts": 2}, {"ts": 3}]
    reply = add_rows(AuditReply(rows=[]), own, others, 3)
    assert [row["ts"] for row in reply.rows] == [2, 3, 4]
    assert reply.truncated
    assert add_rows(AuditReply(rows=[]), own, others, 4).truncated is None

"""Links: byte streams between two nodes over a real server."""

from __future__ import annotations

import asyncio
import json
import struct
from array import array
from collections.abc import AsyncIterator

import nats
import pytest
from nats.aio.client import Client

from fixtures.servers.nats import NatsCluster
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.fleet.control import ControlListener, RequestVerifier
from ptyctl.fleet.link import PING_S, WINDOW_BYTES, LinkListener, open_link, rpc_subject

SUBJECT = rpc_subject("site", "b")
LIMIT = 1024 * 1024


@pytest.fixture
async def other(nats_server: NatsCluster) -> AsyncIterator[Client]:
    client = await nats_server.connect()
    yield client
    await client.close()


class Echo:
    """Sends back what it receives; can stop reading."""

    def __init__(self) -> None:
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.ended = asyncio.Event()
        self.node = ""

    async def __call__(self, node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.node = node
        while await self.may_read.wait() and (data := await reader.read(65536)):
            writer.write(data)
            await writer.drain()
        self.ended.set()


async def test_bytes_cross_a_link_both_ways_in_order(client: Client, other: Client) -> None:
    # Before the link is open: a loop that is blocked for longer than `SILENCE_S` loses it.
    sent = array("I", range(3 * WINDOW_BYTES // 4)).tobytes()
    echo = Echo()
    listener = LinkListener(other, SUBJECT, echo, LIMIT)
    await listener.start()
    reader, writer, _ = await open_link(client, SUBJECT, "a", LIMIT)

    async def send() -> None:
        for begin in range(0, len(sent), 100_000):
            writer.write(sent[begin : begin + 100_000])
            await writer.drain()

    sending = asyncio.create_task(send())
    async with asyncio.timeout(30):
        assert await reader.readexactly(len(sent)) == sent
        await sending
        assert echo.node == "a"
        writer.close()
        await writer.wait_closed()
        await echo.ended.wait()
    await listener.aclose()


async def test_request_and_answer_are_two_messages(client: Client, other: Client) -> None:
    listener = LinkListener(other, SUBJECT, Echo(), LIMIT)
    await listener.start()
    reader, writer, _ = await open_link(client, SUBJECT, "a", LIMIT)
    writer.write(b"first")
    await reader.readexactly(5)
    async with asyncio.timeout(60):
        while True:
            before = [each.stats["out_msgs"] for each in (client, other)]
            began_at = asyncio.get_running_loop().time()
            for _ in range(100):
                writer.write(b"question")
                await reader.readexactly(8)
            sent = [each.stats["out_msgs"] - count for each, count in zip((client, other), before, strict=True)]
            if asyncio.get_running_loop().time() - began_at < PING_S:
                break
    assert max(sent) <= 102  # one ping can be among them
    writer.close()
    await listener.aclose()


@pytest.mark.parametrize("listens", [LinkListener, ControlListener])
async def test_request_with_another_subject_than_an_inbox_for_the_answer_is_refused(
    client: Client, other: Client, listens: type[LinkListener | ControlListener]
) -> None:
    verifier = RequestVerifier(None, "site", "b")
    listener = (
        LinkListener(other, SUBJECT, Echo(), LIMIT)
        if listens is LinkListener
        else ControlListener(other, SUBJECT, verifier, {})
    )
    await listener.start()
    answers = await client.subscribe("$KV.sessions.b.row")
    question = json.dumps({"node": "a", "inbox": "_INBOX.a", "action": "none"}).encode()
    headers = {"KV-Operation": "DEL"}
    await client.publish(SUBJECT, question, reply="$KV.sessions.b.row", headers=headers)
    answer = await client.request(SUBJECT, question, headers=headers, timeout=10)  # after that to the first
    assert answer.headers is None
    assert answers.pending_msgs == 0
    await listener.aclose()


async def test_writer_waits_for_a_reader_that_does_not_read(client: Client, other: Client) -> None:
    echo = Echo()
    echo.may_read.clear()
    listener = LinkListener(other, SUBJECT, echo, 1000)
    await listener.start()
    _, writer, _ = await open_link(client, SUBJECT, "a", LIMIT)
    writer.write(bytes(3 * WINDOW_BYTES))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await writer.drain()
    echo.may_read.set()
    async with asyncio.timeout(30):
        await writer.drain()
    writer.close()
    await listener.aclose()


async def test_end_of_the_node_ends_the_link(client: Client, other: Client) -> None:
    listener = LinkListener(other, SUBJECT, Echo(), LIMIT)
    await listener.start()
    reader, writer, _ = await open_link(client, SUBJECT, "a", LIMIT)
    await listener.aclose()
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    assert writer.is_closing()


async def test_node_that_is_not_there_is_connect_failed_at_once(client: Client) -> None:
    with pytest.raises(PtyctlError, match="does not answer") as raised:
        await open_link(client, rpc_subject("site", "nobody"), "a", LIMIT)
    assert raised.value.code is ErrorCode.CONNECT_FAILED


async def test_lost_message_ends_the_link(client: Client, other: Client) -> None:
    frames: list[bytes] = []

    async def collect(node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames.append(await reader.read())

    listener = LinkListener(other, SUBJECT, collect, LIMIT)
    await listener.start()
    inbox = client.new_inbox()
    ended = asyncio.Event()

    async def receive(message: object) -> None:
        if message.data[:1] == b"C":  # type: ignore[attr-defined]
            ended.set()

    await client.subscribe(inbox, cb=receive)
    answer = await client.request(SUBJECT, b'{"node": "a", "inbox": "%s"}' % inbox.encode(), timeout=5)
    subject = answer.data.decode().split('"')[3]
    for offset, data in [(0, b"one"), (6, b"three")]:
        await client.publish(subject, struct.pack("!cQ", b"D", offset) + data)
    async with asyncio.timeout(60):
        await ended.wait()
    await listener.aclose()
    assert frames == [b"one"]


async def test_listener_waits_until_the_server_has_its_subscription() -> None:
    """A PING that overtakes the subscription proves nothing."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x", "version": "2.15.1", "max_payload": 1048576, "headers": true}\r\n')
        while line := await reader.readline():
            received.append(line.split()[0])
            if received[-1] == b"PING":
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        listener = LinkListener(client, SUBJECT, Echo(), LIMIT)
        await listener.start()
        await client.close()
    assert received.index(b"SUB") < len(received) - 1 - received[::-1].index(b"PING")

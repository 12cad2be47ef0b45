"""MCP messages as JSON lines over asyncio streams."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from ptyctl.core import json_lines
from ptyctl.mcp.message_stream import MessageReader, MessageWriter


class Sink:
    """Records what is written. `broken` behaves like a pipe without a reader."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = self.broken = False

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        if self.broken:
            raise BrokenPipeError

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    @property
    def messages(self) -> list[Any]:
        return [json.loads(line) for line in self.written.splitlines()]


def request(number: int, text: str = "") -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "m", "params": {"text": text}}).encode()


async def read_all(pieces: list[bytes], limit: int = 1 << 16) -> tuple[list[SessionMessage], Sink]:
    """Return the messages read from a stream that arrives in these pieces, and the sink of the reader's errors."""
    source, sink = asyncio.StreamReader(limit=limit), Sink()

    async def feed() -> None:
        for piece in pieces:
            source.feed_data(piece)
            await asyncio.sleep(0)
        source.feed_eof()

    feeding = asyncio.create_task(feed())
    items = [item async for item in MessageReader(source, MessageWriter(sink))]
    await feeding
    assert all(isinstance(item, SessionMessage) for item in items)
    return [item for item in items if isinstance(item, SessionMessage)], sink


def ids(items: list[SessionMessage]) -> list[Any]:
    return [item.message.id for item in items if isinstance(item.message, JSONRPCRequest)]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4), st.data())
def test_messages_are_independent_of_stream_segmentation(texts: list[str], data: st.DataObject) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    stream = b"".join(request(number, text) + b"\n" for number, text in enumerate(texts))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    items, sink = asyncio.run(read_all(pieces))
    assert [item.message.params for item in items if isinstance(item.message, JSONRPCRequest)] == [{"text": t} for t in texts]
    assert not sink.written


@pytest.mark.parametrize(
    ("bad", "call_id", "code"),
    [
        (b"nonsense", None, PARSE_ERROR),
        (b"{", None, PARSE_ERROR),
        (b"\xff\xfe", None, PARSE_ERROR),
        (b"[]", None, INVALID_REQUEST),
        (b"5", None, INVALID_REQUEST),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "secret"}', 7, INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "m", "params": secret}', 7, PARSE_ERROR),
        (b'{"method": "m", "params": %s, "jsonrpc": "2.0", "id": "a"}' % (b"[" * 9999 + b"]" * 9999), "a", PARSE_ERROR),
    ],
)
async def test_invalid_line_returns_error_without_its_text(bad: bytes, call_id: object, code: int) -> None:
    items, sink = await read_all([request(1) + b"\n", bad + b"\n", request(2) + b"\n"])
    assert ids(items) == [1, 2]
    (answer,) = sink.messages
    assert (answer["id"], answer["error"]["code"]) == (call_id, code)
    assert answer["error"]["message"].startswith("Not a JSON-RPC message")
    assert "secret" not in answer["error"]["message"]


async def test_message_with_lone_surrogate_is_passed_to_its_handler() -> None:
    line = b'{"jsonrpc":"2.0","id":"\\udc00","method":"m","params":{"text":"\\ud800"}}'
    items, sink = await read_all([line + b"\n"])
    assert ids(items) == ["\udc00"]
    await MessageWriter(sink).send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id="\udc00", result={})))
    assert sink.messages == [{"jsonrpc": "2.0", "id": "\udc00", "result": {}}]


async def test_blank_lines_and_crlf_are_ignored() -> None:
    items, sink = await read_all([b"\n \r\n" + request(1) + b"\r\n\n"])
    assert (ids(items), sink.written) == ([1], b"")


async def test_last_line_without_newline_is_read() -> None:
    assert ids((await read_all([request(1) + b"\n" + request(2)]))[0]) == [1, 2]


async def test_line_beyond_limit_is_rejected_and_next_one_read() -> None:
    items, sink = await read_all([request(1, "x" * 5000) + b"\n" + request(2) + b"\n"], limit=1000)
    assert ids(items) == [2]
    (answer,) = sink.messages
    assert (answer["id"], answer["error"]["code"]) == (1, INVALID_REQUEST)
    assert "xxx" not in json.dumps(sink.messages)


async def test_message_with_long_structure_is_rejected_and_next_one_read() -> None:
    params = b"[" + b"[]," * json_lines.MAX_STRUCTURE_BYTES + b"[]]"
    line = b'{"jsonrpc":"2.0","method":"m","params":{"a":%s},"id":"mine"}' % params
    items, sink = await read_all([line + b"\n" + request(2) + b"\n"], limit=1 << 20)
    assert ids(items) == [2]
    (answer,) = sink.messages
    assert (answer["id"], answer["error"]["code"]) == ("mine", INVALID_REQUEST)
    assert "outside its strings" in answer["error"]["message"]


async def test_reader_continues_if_error_cannot_be_sent() -> None:
    source, sink = asyncio.StreamReader(), Sink()
    sink.broken = True
    source.feed_data(b"bad\n" + request(1) + b"\n")
    item = await MessageReader(source, MessageWriter(sink)).receive()
    assert isinstance(item, SessionMessage)


async def test_lost_connection_ends_stream() -> None:
    source = asyncio.StreamReader()
    source.set_exception(ConnectionResetError())
    with pytest.raises(anyio.EndOfStream):
        await MessageReader(source, MessageWriter(Sink())).receive()


NOTE = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="m", params={"text": "größe\n☃"}))


async def test_message_is_written_as_one_line_of_utf8() -> None:
    sink = Sink()
    await MessageWriter(sink).send(NOTE)
    assert sink.written.endswith(b"\n")
    assert sink.written.count(b"\n") == 1
    assert sink.messages == [{"jsonrpc": "2.0", "method": "m", "params": {"text": "größe\n☃"}}]


@pytest.mark.parametrize("state", ["broken", "closed"])
async def test_send_to_closed_sink_raises_broken_resource(state: str) -> None:
    sink = Sink()
    setattr(sink, state, True)
    with pytest.raises(anyio.BrokenResourceError):
        await MessageWriter(sink).send(NOTE)


async def test_leaving_writer_context_closes_sink() -> None:
    sink = Sink()
    async with MessageWriter(sink):
        assert not sink.closed
    assert sink.closed

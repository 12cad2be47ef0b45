"""Limits of HTTP connections and WebSockets of clients that do not read, or do not finish a handshake."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from ptyctl.core.limits import LIMITS
from ptyctl.http import connection_limits, server
from ptyctl.http.access import NOT_EXPOSED, Address, Exposure, open_listener, parse_exposure
from ptyctl.http.connection_limits import ConnectionLimits
from tests.http.certificates import make_certificate
from tests.http.silent_websocket import SilentWebSocket
from tests.session.scripted_session import wait_until

_NEVER_S = 3600.0


@asynccontextmanager
async def served(
    app: ASGIApp, limits: ConnectionLimits | None = None, exposure: Exposure = NOT_EXPOSED
) -> AsyncIterator[tuple[int, ConnectionLimits]]:
    """Serve an application; yield the port and the limits."""
    limits, listener = limits or ConnectionLimits(), open_listener(Address("127.0.0.1", 0))
    port = listener.getsockname()[1]
    serving = asyncio.create_task(server.serve(app, listener, websockets=True, limits=limits, exposure=exposure))
    try:
        yield port, limits
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def send_much(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64):
        await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})


class Flood:
    """An application that sends on a WebSocket until it ends. `ended` is set then."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        try:
            while True:
                await send({"type": "websocket.send", "bytes": bytes(1 << 16)})
        except OSError:
            self.ended.set()


async def test_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "UNREAD_TIMEOUT_S", 0.2)
    async with served(send_much) as (port, limits):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readexactly(1)
        assert limits.in_use == 1
        await wait_until(lambda: limits.in_use == 0)
        writer.close()


def _end_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "UNREAD_TIMEOUT_S", 0.2)


def _end_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "UNREAD_TIMEOUT_S", _NEVER_S)
    keepalive = partial(uvicorn.Config, ws_ping_interval=0.2, ws_ping_timeout=0.2)
    monkeypatch.setattr("ptyctl.http.server.uvicorn.Config", keepalive)


@pytest.mark.parametrize("end", [_end_unread, _end_unanswered])
async def test_websocket_whose_client_reads_nothing_ends(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[pytest.MonkeyPatch], None]
) -> None:
    end(monkeypatch)
    app = Flood()
    async with served(app) as (port, limits), SilentWebSocket.open(port):
        await wait_until(app.ended.is_set)
        await wait_until(lambda: limits.in_use == 0)


async def test_websocket_that_was_served_ends_although_its_client_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "UNREAD_TIMEOUT_S", _NEVER_S)
    monkeypatch.setattr(connection_limits, "CLOSE_TIMEOUT_S", 0.2)

    async def send_and_return(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "bytes": bytes(16 << 20)})

    async with served(send_and_return) as (port, limits), SilentWebSocket.open(port):
        await wait_until(lambda: limits.in_use == 0)


async def test_pings_of_client_that_reads_nothing_are_not_all_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last one is, when the client reads again: the answers do not fill the memory."""
    monkeypatch.setattr(connection_limits, "UNREAD_TIMEOUT_S", _NEVER_S)
    monkeypatch.setattr("ptyctl.http.server.uvicorn.Config", partial(uvicorn.Config, ws_ping_interval=None))
    received = asyncio.Event()
    transports: list[asyncio.WriteTransport] = []

    async def receive_text(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await receive()  # the connection
        assert (await receive())["text"] == "end"
        received.set()
        await receive()

    made = connection_limits.LimitedWebSocket.connection_made

    def note_transport(self: connection_limits.LimitedWebSocket, transport: asyncio.WriteTransport) -> None:
        transports.append(transport)
        made(self, transport)

    monkeypatch.setattr(connection_limits.LimitedWebSocket, "connection_made", note_transport)
    async with served(receive_text) as (port, limits), SilentWebSocket.open(port) as client:
        for number in range(150):
            await client.send(0x9, number.to_bytes(4, "big") * 30, repeat=1000)
        await client.send(0x9, b"last")
        await client.send(0x1, b"end")
        await wait_until(received.is_set)
        assert 0 < transports[0].get_write_buffer_size() < 1 << 20
        await client.read_until(b"\x8a\x04last")
        client.close()
        await wait_until(lambda: limits.in_use == 0)


async def test_client_without_tls_handshake_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "TLS_HANDSHAKE_TIMEOUT_S", 0.2)
    exposure = parse_exposure(*make_certificate(tmp_path), trusted_proxies=(), public_origin=None)
    async with served(send_much, exposure=exposure) as (port, limits):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(30):  # less than asyncio's default
            assert await reader.read() == b""
        writer.close()
        await wait_until(lambda: limits.in_use == 0)


async def test_tls_handshakes_count_as_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "TLS_HANDSHAKE_TIMEOUT_S", int(_NEVER_S))
    certificate, key = make_certificate(tmp_path)
    exposure = parse_exposure(certificate, key, trusted_proxies=(), public_origin=None)
    three = ConnectionLimits(LIMITS["max_http_connections"]._replace(maximum=3))
    async with (
        served(send_much, three, exposure) as (port, limits),
        contextlib.AsyncExitStack() as opened,
    ):
        waiting = []
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.callback(writer.close)
            waiting.append(reader)
        async with asyncio.timeout(30):
            for reader in waiting[:2]:  # those that wait the longest make room
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
        assert limits.in_use == 3
        trusted = ssl.create_default_context(cafile=certificate)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusted)
        opened.callback(writer.close)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(30):
            assert await reader.readexactly(12) == b"HTTP/1.1 200"
        assert limits.in_use == 3

"""Limits of HTTP connections of clients that do not read, or do not finish a handshake."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from ptyctl.http import connection_limits, server
from ptyctl.http.access import Address, open_listener, parse_exposure
from ptyctl.http.connection_limits import ConnectionLimits
from tests.http.certificates import make_certificate
from tests.session.scripted_session import wait_until


async def send_much(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64):
        await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})


async def test_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "UNREAD_TIMEOUT_S", 0.2)
    limits, listener = ConnectionLimits(), open_listener(Address("127.0.0.1", 0))
    port = listener.getsockname()[1]
    serving = asyncio.create_task(server.serve(send_much, listener, limits=limits))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readexactly(1)
    assert limits.in_use == 1
    await wait_until(lambda: limits.in_use == 0)
    writer.close()
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


async def test_client_without_tls_handshake_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TLS_HANDSHAKE_TIMEOUT_S", 0.2)
    exposure = parse_exposure(*make_certificate(tmp_path), trusted_proxies=(), public_origin=None)
    listener = open_listener(Address("127.0.0.1", 0))
    port = listener.getsockname()[1]
    serving = asyncio.create_task(server.serve(send_much, listener, exposure=exposure))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(30):  # less than asyncio's default
        assert await reader.read() == b""
    writer.close()
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving

"""Limits of HTTP connections of clients that do not read."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from starlette.types import Receive, Scope, Send

from ptyctl.http import connection_limits
from ptyctl.http.access import Address, open_listener
from ptyctl.http.connection_limits import ConnectionLimits
from ptyctl.http.server import serve
from tests.session.scripted_session import wait_until


async def send_much(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64):
        await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})


async def test_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "UNREAD_TIMEOUT_S", 0.2)
    limits, listener = ConnectionLimits(), open_listener(Address("127.0.0.1", 0))
    port = listener.getsockname()[1]
    serving = asyncio.create_task(serve(send_much, listener, limits=limits))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readexactly(1)
    assert limits.in_use == 1
    await wait_until(lambda: limits.in_use == 0)
    writer.close()
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving

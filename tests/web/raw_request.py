"""Requests whose target a client library would change."""

from __future__ import annotations

import asyncio

from tests.web.console import PATIENCE_S


async def request_target(port: int, target: str) -> tuple[int, bytes]:
    """Send a GET request with exactly this target; return the status and the body of the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
    response = await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    await writer.wait_closed()
    header, _, body = response.partition(b"\r\n\r\n")
    return int(header.split()[1]), body

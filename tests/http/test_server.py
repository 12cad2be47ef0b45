"""The start and the stop of the HTTP server."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.responses import PlainTextResponse

from fixtures.virtual_clock import run_virtually
from ptyctl.http.access import Address, open_listener
from ptyctl.http.server import serve


async def stop_time_s(*, connected: bool) -> float:
    """Return how long a server takes to stop, on the clock of the event loop."""
    loop, listener = asyncio.get_running_loop(), open_listener(Address("127.0.0.1", 0))
    serving = asyncio.create_task(serve(PlainTextResponse("the end"), listener))
    reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readuntil(b"the end")).startswith(b"HTTP/1.1 200")
    if not connected:
        writer.close()
        await writer.wait_closed()
        assert await reader.read() == b""
    begin = loop.time()
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    if connected:
        assert await reader.read() == b""
        writer.close()
    return loop.time() - begin


def test_server_stops_without_a_wait() -> None:
    assert run_virtually(stop_time_s(connected=False)) < 0.1


def test_server_with_an_idle_connection_stops_without_a_wait() -> None:
    assert run_virtually(stop_time_s(connected=True)) < 0.1

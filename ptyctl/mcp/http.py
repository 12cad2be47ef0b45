"""The streamable HTTP transport: any number of clients of either era, on one bound socket of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from .access import BACKLOG
from .endpoint import Endpoint
from .guard import Guard
from .wire import MAX_MESSAGE_BYTES

#: Seconds that a client which does not read gets, in the end, to take its last answer.
_GRACE_S = 2


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the command's, which has more to end than this server."""
        yield


async def serve_http(server: Server[Any], listener: socket.socket, token: str) -> None:
    """Serves on a listening socket until cancelled; then answers what is under way, and closes the socket."""
    manager = StreamableHTTPSessionManager(server, max_request_body_size=MAX_MESSAGE_BYTES)
    endpoint = Endpoint(manager)
    config = uvicorn.Config(
        Guard(endpoint, token),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        backlog=BACKLOG,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    uvicorn_server = _Uvicorn(config)
    serving = asyncio.create_task(uvicorn_server.serve(sockets=[listener]))
    try:
        async with manager.run():
            try:
                await asyncio.shield(serving)
            finally:
                endpoint.close()
    finally:
        uvicorn_server.should_exit = True
        await serving

"""The HTTP transport in this process on a free port, and clients with its token."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from fixtures.http_client import loopback_client
from ptyctl.api import Controller
from ptyctl.controller.tokens import Tokens
from ptyctl.core.limits import LIMITS, Limit
from ptyctl.http.access import Address, open_listener
from ptyctl.http.bearer import Record
from ptyctl.mcp.http import serve_http
from ptyctl.mcp.server import build_server
from ptyctl.mcp.toolsets import choose
from tests.mcp.server_process import PATIENCE_S

TOKEN = "correct-horse"


@asynccontextmanager
async def http_server(
    controller: Controller,
    tokens: Tokens | None = None,
    record: Record = lambda event, **fields: None,
    *,
    toolsets: str = "core",
    limits: Mapping[str, Limit] = LIMITS,
) -> AsyncIterator[str]:
    """Yield the URL of the endpoint; cancel the server at the end, as a signal does."""
    listener = open_listener(Address("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = build_server(controller, choose(toolsets))
    serving = asyncio.create_task(serve_http(server, listener, tokens or Tokens(None, TOKEN), record, limits))
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(serving, PATIENCE_S)


@asynccontextmanager
async def http_client(url: str, mode: str, token: str = TOKEN) -> AsyncIterator[Client]:
    async with (
        loopback_client(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=PATIENCE_S) as client,
    ):
        yield client

"""The HTTP transport in this process on a free port, and clients with its token."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

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
    no_trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to load the certificates of the system takes longer than most tests
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S, verify=no_trust) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=PATIENCE_S) as client,
    ):
        yield client

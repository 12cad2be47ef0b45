"""Serves one MCP client on a pair of byte streams: standard input and output, or the daemon's socket."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server.lowlevel import Server

from ptyctl.core.principal import Principal
from ptyctl.session.clients import serving_connection

from .message_stream import MessageReader, MessageWriter, Sink


async def serve_streams(server: Server[Any], principal: Principal, source: asyncio.StreamReader, sink: Sink) -> None:
    """Serve until the client closes its side; calls that are still running are cancelled."""
    writer = MessageWriter(sink)
    with serving_connection(principal, elicits=True):
        await server.run(MessageReader(source, writer), writer, server.create_initialization_options())

"""Serves one MCP client on a pair of byte streams: standard input and output, or the daemon's socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from mcp.server.lowlevel import Server

from ptyctl.api import Controller
from ptyctl.session.clients import Client, serving, user_agent

from .message_stream import MessageReader, MessageWriter, Sink
from .server import build_server
from .tool import Tool


async def serve_tools(
    controller: Controller,
    tools: Sequence[Tool],
    source: asyncio.StreamReader,
    sink: Sink,
    *,
    full_text: bool | None = None,
) -> None:
    """Serve the tools of one controller until the client closes its side."""
    await serve_streams(build_server(controller, tools, full_text=full_text), source, sink)


async def serve_streams(server: Server[Any], source: asyncio.StreamReader, sink: Sink) -> None:
    """Serve until the client closes its side; calls that are still running are cancelled."""
    writer = MessageWriter(sink)
    with serving(Client(user_agent())):
        await server.run(MessageReader(source, writer), writer, server.create_initialization_options())

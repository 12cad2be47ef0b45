"""The stdio transport: one client, on the standard streams of this process."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import FileIO
from typing import Any

from mcp.server.lowlevel import Server

from ptyctl.core import json_lines
from ptyctl.session.clients import user_agent

from .message_stream import Sink, serve_streams


async def serve_stdio(server: Server[Any]) -> None:
    """Serve the client until it closes stdin; calls that are still running are cancelled."""
    async with standard_streams() as (source, sink):
        await serve_streams(server, user_agent(), source, sink)


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[asyncio.StreamReader, Sink]]:
    """Take stdin and stdout for the transport: stray prints go to stderr, and child processes read nothing."""
    with _replaced(0, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)) as stdin, _replaced(1, os.dup(2)) as stdout:
        loop = asyncio.get_running_loop()
        source = asyncio.StreamReader(limit=json_lines.MAX_LINE_BYTES)
        transport = await _connect_source(loop, stdin, source)
        sink = await _open_sink(loop, stdout)
        try:
            yield source, sink
        finally:
            _close_sink(sink)
            if transport is not None:
                transport.close()


@contextmanager
def _replaced(fd: int, substitute: int) -> Iterator[int]:
    """Replace `fd` by `substitute`, yield a private duplicate of the original, and restore it with its blocking mode.

    The parent process may share the open file (a terminal, a shell's redirection), and asyncio changes its blocking mode.
    """
    saved, private, blocking = os.dup(fd), os.dup(fd), os.get_blocking(fd)
    os.dup2(substitute, fd)
    os.close(substitute)
    try:
        yield private
    finally:
        os.dup2(saved, fd)
        os.set_blocking(fd, blocking)
        os.close(saved)


def _is_pollable(fd: int) -> bool:
    """Return whether an event loop can poll it; false for regular files and the null device."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


async def _connect_source(
    loop: asyncio.AbstractEventLoop, fd: int, source: asyncio.StreamReader
) -> asyncio.ReadTransport | None:
    file = os.fdopen(fd, "rb", buffering=0)
    if _is_pollable(fd):
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(source), file)
        return transport
    with file:
        source.feed_data(file.read())
        source.feed_eof()
    return None


async def _open_sink(loop: asyncio.AbstractEventLoop, fd: int) -> Sink:
    file = os.fdopen(fd, "wb", buffering=0)
    if not _is_pollable(fd):
        return _FileSink(file)
    reader = asyncio.StreamReader()  # unused, but StreamReaderProtocol provides the flow control that drain() needs
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    transport.set_write_buffer_limits(0)  # drain() waits until everything is written, so nothing is left at the end
    return asyncio.StreamWriter(transport, protocol, reader, loop)


def _close_sink(sink: Sink) -> None:
    sink.close()
    if isinstance(sink, asyncio.StreamWriter) and sink.transport.get_write_buffer_size():
        sink.transport.abort()  # the client has not read the data in time


class _FileSink:
    """A regular file as a Sink. Writing never blocks."""

    def __init__(self, file: FileIO) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.write(data)

    async def drain(self) -> None:
        """Return at once."""

    def is_closing(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        self._file.close()

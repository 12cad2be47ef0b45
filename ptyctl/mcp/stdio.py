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

from .wire import MAX_MESSAGE_BYTES, LineReader, LineWriter, Sink


async def serve_stdio(server: Server[Any]) -> None:
    """Serves the one client until it closes stdin. Calls that are still under way then are cancelled."""
    async with _standard_streams() as (source, sink):
        writer = LineWriter(sink)
        await server.run(LineReader(source, writer), writer, server.create_initialization_options())


@asynccontextmanager
async def _standard_streams() -> AsyncIterator[tuple[asyncio.StreamReader, Sink]]:
    """The wire, taken away from everybody else: what is printed by mistake goes to stderr, and children read nothing."""
    with _taken(0, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)) as stdin, _taken(1, os.dup(2)) as stdout:
        loop = asyncio.get_running_loop()
        source = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
        reading = await _connect(loop, stdin, source)
        sink = await _sink(loop, stdout)
        try:
            yield source, sink
        finally:
            _end(sink)
            if reading is not None:
                reading.close()


@contextmanager
def _taken(fd: int, substitute: int) -> Iterator[int]:
    """A private descriptor of what `fd` is, while `fd` itself is `substitute`. Both are as before in the end.

    Whoever started us may share the open file (a terminal, a shell's redirection), and with it the blocking mode that
    asyncio changes.
    """
    kept, private, blocking = os.dup(fd), os.dup(fd), os.get_blocking(fd)
    os.dup2(substitute, fd)
    os.close(substitute)
    try:
        yield private
    finally:
        os.dup2(kept, fd)
        os.set_blocking(fd, blocking)
        os.close(kept)


def _is_stream(fd: int) -> bool:
    """Whether an event loop can wait for it; for a file or the null device there is nothing to wait for."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


async def _connect(loop: asyncio.AbstractEventLoop, fd: int, source: asyncio.StreamReader) -> asyncio.ReadTransport | None:
    file = os.fdopen(fd, "rb", buffering=0)
    if _is_stream(fd):
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(source), file)
        return transport
    with file:
        source.feed_data(file.read())
        source.feed_eof()
    return None


async def _sink(loop: asyncio.AbstractEventLoop, fd: int) -> Sink:
    file = os.fdopen(fd, "wb", buffering=0)
    if not _is_stream(fd):
        return _FileSink(file)
    reader = asyncio.StreamReader()  # never read: a StreamReaderProtocol is what knows how to hold a writer back
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    transport.set_write_buffer_limits(0)  # drain() is to wait for all of it: nothing is left to flush in the end
    return asyncio.StreamWriter(transport, protocol, reader, loop)


def _end(sink: Sink) -> None:
    sink.close()
    if isinstance(sink, asyncio.StreamWriter) and sink.transport.get_write_buffer_size():
        sink.transport.abort()  # the client did not read it while there was time


class _FileSink:
    """A regular file as a Sink: writing to it never waits."""

    def __init__(self, file: FileIO) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.write(data)

    async def drain(self) -> None:
        """There is nothing to wait for."""

    def is_closing(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        self._file.close()

"""Telnet listener of the simulated switch."""

from __future__ import annotations

import asyncio
from typing import cast

from .telnet_codec import TelnetCodec
from .terminal_lines import LineDriver, LineTable


class TelnetServerConnection(asyncio.Protocol):
    """A client connection: an asyncio protocol, and a `LineConnection` of its line."""

    def __init__(self, lines: LineTable, connections: set[TelnetServerConnection]) -> None:
        self._lines, self._connections = lines, connections
        self._codec = TelnetCodec(self._resize, insists=lines.quirks.insists_on_options)
        self._transport: asyncio.Transport | None = None
        self._line: LineDriver | None = None
        #: Completed when the connection is closed.
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._transport.write(self._codec.greeting())
        self._line = self._lines.open_telnet()
        self._line.attach(self)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None, "asyncio calls connection_made first"
        assert self._line is not None, "asyncio calls connection_made first"
        typed, reply = self._codec.feed(data)
        if reply:
            self._transport.write(reply)
        if typed:
            self._line.receive(typed)

    def pause_writing(self) -> None:
        if self._line is not None:
            self._line.pause_output(self)

    def resume_writing(self) -> None:
        if self._line is not None:
            self._line.resume_output(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        if self._line is not None:
            self._lines.release(self._line, self)
        self.closed.set_result(None)

    # LineConnection

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._codec.encode(data))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def drop(self) -> None:
        # FIN instead of RST: a reset would also discard data that the client has not read yet.
        self.close()

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection without sending queued output."""
        if self._transport is not None:
            self._transport.abort()

    def _resize(self, cols: int, rows: int) -> None:
        if self._line is not None:
            self._line.console.resize(cols, rows)


class TelnetServer:
    """Listens on a free port."""

    def __init__(self, lines: LineTable) -> None:
        self._lines = lines
        self._connections: set[TelnetServerConnection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str) -> int:
        """Start listening and return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: TelnetServerConnection(self._lines, self._connections), host, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        # A connection that was being accepted when the listener closed may be added meanwhile.
        while self._connections:
            connection = next(iter(self._connections))
            connection.abort()
            await connection.closed
        await self._server.wait_closed()

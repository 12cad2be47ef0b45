"""The Telnet listener."""

from __future__ import annotations

import asyncio
from typing import cast

from .line import Line
from .lines import Lines
from .telnet_codec import TelnetCodec


class TelnetConnection(asyncio.Protocol):
    """One connection, as asyncio's protocol on one side and as a `Wire` on the other."""

    def __init__(self, lines: Lines, connections: set[TelnetConnection]) -> None:
        self._lines, self._connections = lines, connections
        self._codec = TelnetCodec(self._resized, insists=lines.quirks.insists_on_options)
        self._transport: asyncio.Transport | None = None
        self._line: Line | None = None
        #: Done once the connection is gone.
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._transport.write(self._codec.greeting())
        self._line = self._lines.telnet()
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
        # A client that reads nothing must not make us remember ever more.
        if self._line is not None:
            self._line.stalls(self)

    def resume_writing(self) -> None:
        if self._line is not None:
            self._line.flows(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        if self._line is not None:
            self._lines.release(self._line, self)
        self.gone.set_result(None)

    # Wire

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._codec.encode(data))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def drop(self) -> None:
        # FIN and not RST: a reset would also take what the client has not read yet.
        self.close()

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Ends the connection now, whether the client reads or not."""
        if self._transport is not None:
            self._transport.abort()

    def _resized(self, cols: int, rows: int) -> None:
        if self._line is not None:
            self._line.console.resize(cols, rows)


class TelnetServer:
    """Listens on a free port of `host`."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._connections: set[TelnetConnection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str) -> int:
        """Gives the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: TelnetConnection(self._lines, self._connections), host, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        # A connection whose accept was still under way when the listener closed may join while this waits.
        while self._connections:
            connection = next(iter(self._connections))
            connection.abort()
            await connection.gone
        await self._server.wait_closed()

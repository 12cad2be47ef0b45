"""A TCP relay in front of a device that records what the device hears, with the time and the connection."""

from __future__ import annotations

import asyncio
import re
import time
from typing import NamedTuple

#: Telnet commands, options and subnegotiations (RFC 854, RFC 855).
_TELNET_COMMAND = re.compile(rb"\xff(?:\xfa.*?\xff\xf0|[\xfb-\xfe].|[\xf1-\xf9])", re.DOTALL)


class Heard(NamedTuple):
    """Received bytes: when (epoch ms), and the number of the connection."""

    ts: float
    connection: int
    data: bytes


class Oracle:
    """Forwards connections to a port of 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.heard: list[Heard] = []
        self._connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Oracle:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def keys(self) -> list[tuple[float, int, int]]:
        """Return each byte with its time and connection, without the commands of Telnet."""
        keys = [(ts, connection, byte) for ts, connection, data in self.heard for byte in data]
        text = bytes(byte for _, _, byte in keys)
        for command in reversed(list(_TELNET_COMMAND.finditer(text))):
            del keys[slice(*command.span())]
        return keys

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._connections += 1
        for copying in (self._copy(reader, far_writer, self._connections), self._copy(far_reader, writer)):
            self._tasks.add(asyncio.ensure_future(copying))

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, connection: int | None = None) -> None:
        try:
            while data := await source.read(65536):
                if connection is not None:
                    self.heard.append(Heard(time.time() * 1000, connection, data))
                target.write(data)
                await target.drain()
        except ConnectionError:
            pass
        finally:
            target.close()

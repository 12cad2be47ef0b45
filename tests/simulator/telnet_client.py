"""Raw Telnet client of a simulated switch, and the switch that the tests use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self, cast

from ptyctl.simulator import SimulatedSwitch

IAC, DONT, DO, WONT, WILL, SB, SE = 255, 254, 253, 252, 251, 250, 240
ECHO, SGA, TTYPE, NAWS = 1, 3, 24, 31

GREETING = bytes([IAC, WILL, ECHO, IAC, WILL, SGA, IAC, DO, NAWS])
NAWS_80_10 = bytes([IAC, SB, NAWS, 0, 80, 0, 10, IAC, SE])

TIMEOUT_S = 120


class RawTelnetClient:
    """Socket client that neither negotiates options nor decodes Telnet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    @property
    def transport(self) -> asyncio.Transport:
        return cast(asyncio.Transport, self._writer.transport)

    async def until(self, end: bytes | tuple[bytes, ...]) -> bytes:
        """Return the received bytes once they end with `end`, or with one of several."""
        received = b""
        while not received.endswith(end):
            piece = await asyncio.wait_for(self._reader.read(65536), TIMEOUT_S)
            assert piece, f"the connection was closed after {received!r}"
            received += piece
        return received

    async def skip_to(self, end: bytes) -> None:
        """Discard received bytes until they end with `end`."""
        tail = b""
        while not tail.endswith(end):
            piece = await asyncio.wait_for(self._reader.read(1 << 20), TIMEOUT_S)
            assert piece, "the connection was closed"
            tail = (tail + piece)[-len(end) :]

    async def read_all(self) -> bytes:
        """Return the received bytes up to the end of the connection."""
        return await asyncio.wait_for(self._reader.read(), TIMEOUT_S)

    async def run(self, keys: bytes, end: bytes | tuple[bytes, ...]) -> bytes:
        self.send(keys)
        return await self.until(end)

    async def log_in(self, prompt: bytes = b"sw1#") -> Self:
        """Log in and enable."""
        await self.until(b"Username: ")
        await self.run(b"admin\r\0", b"Password: ")
        await self.run(b"pw\r\0", b">")
        await self.run(b"enable\r\0", b"Password: ")
        await self.run(b"en\r\0", prompt)
        return self


@asynccontextmanager
async def connected(switch: SimulatedSwitch) -> AsyncIterator[RawTelnetClient]:
    reader, writer = await asyncio.open_connection(switch.host, switch.telnet_port)
    try:
        yield RawTelnetClient(reader, writer)
    finally:
        writer.close()
        # The switch may have closed or reset the connection.
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def create_switch(**options: Any) -> SimulatedSwitch:
    """Create switch `sw1` with the credentials that `RawTelnetClient.log_in` uses."""
    return SimulatedSwitch("sw1", password="pw", enable_secret="en", **options)

"""A raw socket on the Telnet port of a simulated switch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from ptyctl.simulator import SimulatedSwitch

IAC, DONT, DO, WONT, WILL, SB, SE = 255, 254, 253, 252, 251, 250, 240
ECHO, SGA, TTYPE, NAWS = 1, 3, 24, 31

GREETING = bytes([IAC, WILL, ECHO, IAC, WILL, SGA, IAC, DO, NAWS])
NAWS_80_10 = bytes([IAC, SB, NAWS, 0, 80, 0, 10, IAC, SE])


class Client:
    """A socket that knows no Telnet."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    @property
    def transport(self) -> asyncio.Transport:
        return cast(asyncio.Transport, self._writer.transport)

    async def until(self, end: bytes | tuple[bytes, ...]) -> bytes:
        """Everything up to `end`, or one of them, which must be the last thing that arrives."""
        seen = b""
        while not seen.endswith(end):
            piece = await asyncio.wait_for(self._reader.read(65536), 20)
            assert piece, f"the line was closed after {seen!r}"
            seen += piece
        return seen

    async def skip_to(self, end: bytes) -> None:
        """Reads on, however much it is, until `end` is the last thing that arrives."""
        tail = b""
        while not tail.endswith(end):
            piece = await asyncio.wait_for(self._reader.read(1 << 20), 20)
            assert piece, "the line was closed"
            tail = (tail + piece)[-len(end) :]

    async def rest(self) -> bytes:
        """Everything until the far end closes."""
        return await asyncio.wait_for(self._reader.read(), 20)

    async def run(self, keys: bytes, end: bytes | tuple[bytes, ...]) -> bytes:
        self.send(keys)
        return await self.until(end)

    async def log_in(self, prompt: bytes = b"sw1#") -> Client:
        await self.until(b"Username: ")
        await self.run(b"admin\r\0", b"Password: ")
        await self.run(b"pw\r\0", b">")
        await self.run(b"enable\r\0", b"Password: ")
        await self.run(b"en\r\0", prompt)
        return self


@asynccontextmanager
async def connected(switch: SimulatedSwitch) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(switch.host, switch.telnet_port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        # The far end may be gone already, and with a reset.
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def practice(**options: object) -> SimulatedSwitch:
    return SimulatedSwitch("sw1", password="pw", enable_secret="en", **options)  # type: ignore[arg-type]

"""A raw WebSocket client that reads only on request."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Self

#: Receive buffer of the client's socket (SO_RCVBUF, bytes).
_RECEIVED_BYTES = 4096


class SilentWebSocket:
    """An open connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._loop = asyncio.get_running_loop()

    @classmethod
    @asynccontextmanager
    async def open(cls, port: int, path: str = "/", headers: Mapping[str, str] | None = None) -> AsyncIterator[Self]:
        """Connect to a port of 127.0.0.1, and read the response of the upgrade."""
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
            connection.setblocking(False)
            client = cls(connection)
            await client._loop.sock_connect(connection, ("127.0.0.1", port))
            fields = {
                "Host": f"127.0.0.1:{port}",
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
                **(headers or {}),
            }
            lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
            await client._loop.sock_sendall(connection, "\r\n".join(lines).encode())
            assert (await client.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            yield client

    async def send(self, opcode: int, payload: bytes, *, repeat: int = 1) -> None:
        """Send a message of less than 126 bytes, in one frame, some times."""
        await self._loop.sock_sendall(self._socket, _frame(0x80 | opcode, payload) * repeat)

    async def send_fragments(self, number: int) -> None:
        """Send the start of a text message: empty frames."""
        await self._loop.sock_sendall(self._socket, _frame(0x1) + _frame(0x0) * (number - 1))

    async def read_until(self, end: bytes) -> bytes:
        """Read up to some bytes."""
        received = b""
        while not received.endswith(end):
            piece = await self._loop.sock_recv(self._socket, 1 if end == b"\r\n\r\n" else 1 << 16)
            assert piece, received[-100:]
            received += piece
        return received

    def close(self) -> None:
        self._socket.close()


def _frame(first: int, payload: bytes = b"") -> bytes:
    key = os.urandom(4)
    masked = bytes(byte ^ key[index % 4] for index, byte in enumerate(payload))
    return bytes((first, 0x80 | len(payload))) + key + masked

"""Input of asyncssh: reads in small pieces and, after a reset, also the data that the kernel still holds."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

import asyncssh

#: Bytes that one turn of the event loop reads. asyncssh takes some 30 us for each packet, which can be as short as 32 bytes:
#: the 256 KiB that asyncio reads by default took 95 ms of a turn.
READ_BYTES = 16 * 1024
#: Largest packet that is requested in a channel through a jump host: its content is read in one turn too.
TUNNEL_PACKET_BYTES = 8 * 1024
#: Maximum size of the data that is read after a reset. The receive window of a channel bounds it.
_REMAINING_BYTES = 1024 * 1024


def limit_reads(transport: Any) -> None:
    """Let a socket or pipe of asyncio read at most `READ_BYTES` at once. Other transports do not change."""
    if hasattr(transport, "max_size"):
        transport.max_size = READ_BYTES


def read_after_reset(connection: asyncssh.SSHClientConnection) -> None:
    """Let a connection receive all bytes that came before a reset, and report its loss after them.

    asyncio stops reading when a write fails, and asyncssh writes while it receives output, for example to open the window.
    Linux does not drop the received bytes at a reset.
    """
    report = connection.connection_lost

    def connection_lost(error: Exception | None = None) -> None:
        transport = connection._transport
        if not isinstance(error, OSError) or not isinstance(transport, asyncio.Transport):  # a tunnel is read by its jump host
            report(error)
            return
        own = transport.get_extra_info("socket")
        try:
            duplicate = socket.fromfd(own.fileno(), own.family, own.type)  # asyncio closes its own after this call
        except OSError:
            report(error)
            return
        duplicate.setblocking(False)
        _read_remaining(connection, duplicate, _REMAINING_BYTES, lambda: report(error))

    connection.connection_lost = connection_lost  # type: ignore[method-assign, assignment]


def _read_remaining(
    connection: asyncssh.SSHClientConnection, tcp: socket.socket, room: int, report: Callable[[], None]
) -> None:
    """Read one piece, and the next one in the next turn of the loop; then report the loss of the connection."""
    data = b""
    if room > 0 and connection._transport is not None:  # asyncssh has not closed it
        with contextlib.suppress(OSError):
            data = tcp.recv(READ_BYTES)
    if not data:
        tcp.close()
        report()
        return
    connection.data_received(data)
    asyncio.get_running_loop().call_soon(_read_remaining, connection, tcp, room - len(data), report)

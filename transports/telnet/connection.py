"""The TCP connection of a Telnet client: passes data to the receiver and commands to the negotiation."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import cast

from transports.errors import ChannelBroken, ChannelClosed, ChannelEnded, ChannelError
from transports.receiver import Receiver

from .connect_options import Keepalive
from .negotiation import TelnetNegotiation
from .parser import TelnetParser

#: Size of one read, bytes: large enough for hundreds of MB/s, small enough that a read of nothing but commands blocks the event
#: loop for less than 20 ms.
READ_BYTES = 32768
#: Maximum size of one write, bytes. No more is accepted until the kernel has taken it, so a ctrl_c is never far behind.
WRITE_BYTES = 16384
#: Limit for unsent bytes in the kernel (TCP_NOTSENT_LOWAT). Unacknowledged bytes do not count, so throughput is unaffected.
UNSENT_BYTES = 16384
#: Limit for responses that the peer requests but does not read, bytes. One read can request a few KB.
MAX_UNREAD_ANSWERS = 131_072

#: TCP keepalive: four probes at intervals of 15 s after a minute of silence. A console can be silent for days.
KEEPALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}


class TelnetConnection(asyncio.BufferedProtocol):
    """An asyncio protocol that feeds a receiver; reading is never paused.

    Args:
        receiver: gets the data without IAC sequences and, unless BINARY is on, without NUL.
        negotiate: creates the negotiation for the transport.
        peer: the name of the remote end in messages.
    """

    def __init__(self, receiver: Receiver, negotiate: Callable[[asyncio.Transport], TelnetNegotiation], peer: str) -> None:
        self._receiver = receiver
        self._negotiate = negotiate
        self._peer = peer
        self._parser = TelnetParser()
        self._buffer = bytearray()
        self._is_abandoned = False
        #: The reason for the end, None before it. Nothing can be written afterwards.
        self.reason: ChannelError | None = None
        #: Set when the peer has sent something or the connection is lost; the waiter clears it.
        self.activity = asyncio.Event()
        #: Whether the peer has sent data other than commands.
        self.has_data = False
        #: Set while `write` accepts bytes, and after the end.
        self.writable = asyncio.Event()
        #: Set when the last byte is delivered and the socket is released.
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        _set_options(self._transport.get_extra_info("socket"))
        self.negotiation = self._negotiate(self._transport)
        self.writable.set()

    def get_buffer(self, sizehint: int) -> bytearray:
        # Allocated per read: permanent buffers of 1000 idle consoles would take 64 MB.
        self._buffer = bytearray(READ_BYTES)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(memoryview(self._buffer)[:nbytes])
        self._buffer = bytearray()
        self._process(data)
        if nbytes < READ_BYTES:  # the kernel has no more data
            self._receiver.drained()
        self.activity.set()
        if self._transport.get_write_buffer_size() > MAX_UNREAD_ANSWERS:
            self._end(
                ChannelBroken(
                    f"{self._peer} negotiates endlessly and does not read the responses",
                    hint="check that it is a Telnet server",
                )
            )
            self._transport.abort()

    def eof_received(self) -> None:
        self._end(ChannelEnded(f"{self._peer} closed the connection"))
        self._transport.abort()  # the peer reads no more, and flushing could block forever

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError) and self.reason is None:
            self._read_remaining()
        reason = self._end(_broken(self._peer, exc) if exc else _closed(self._peer))
        if not self._is_abandoned:
            self._receiver.channel_ended(reason)
        self.negotiation.close()
        self.activity.set()
        self.lost.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def write(self, data: bytes) -> int:
        """Accept up to `WRITE_BYTES`; 0 while the kernel has not taken the previous write."""
        if not self.writable.is_set():
            return 0
        self.negotiation.send(data[:WRITE_BYTES])
        return min(len(data), WRITE_BYTES)

    def send_keepalive(self, command: Keepalive) -> None:
        """Send a keepalive unless the kernel still has unsent output."""
        if self.writable.is_set():
            self.negotiation.send_keepalive(command)

    def abort(self) -> None:
        """Close the connection at once, without sending the remaining output."""
        self._transport.abort()

    def close(self) -> None:
        """Stop reading, send the remaining output, then close."""
        self._end(_closed(self._peer))
        self._transport.close()

    def abandon(self) -> None:
        """End after a failed or cancelled open, without `channel_ended`."""
        self._is_abandoned = True
        self._end(_closed(self._peer))

    def _process(self, data: bytes) -> None:
        has_text = False
        for event in self._parser.feed(data):
            if not isinstance(event, bytes):
                self.negotiation.handle(event)
                continue
            # RFC 854: CR NUL is a CR, and NUL elsewhere has no effect. All NULs are padding; no state is needed for CR.
            text = event if self.negotiation.receives_binary else event.replace(b"\0", b"")
            if text and not has_text:
                has_text = self.has_data = True
                self.negotiation.data_received()
            if text:
                self._receiver.data_received(text)

    def _read_remaining(self) -> None:
        """Deliver the bytes received before a reset. A write that fails first makes the transport stop reading too early."""
        own = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError), socket.fromfd(own.fileno(), own.family, own.type) as duplicate:
            while data := duplicate.recv(READ_BYTES):
                self._process(data)

    def _end(self, reason: ChannelError) -> ChannelError:
        """Record the reason for the end; the first one counts."""
        if self.reason is None:
            self.reason = reason
        self.writable.set()
        return self.reason


def _set_options(tcp: socket.socket) -> None:
    """Set the socket options that Telnet needs; asyncio has set TCP_NODELAY."""
    # RFC 854, Synch: DM is sent as urgent data. Out of line its byte would be lost, and the IAC before it take the next byte.
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in {**KEEPALIVE, socket.TCP_NOTSENT_LOWAT: UNSENT_BYTES}.items():
        tcp.setsockopt(socket.IPPROTO_TCP, option, value)


def _closed(peer: str) -> ChannelClosed:
    return ChannelClosed(f"the connection to {peer} was closed from this side")


def _broken(peer: str, exc: Exception) -> ChannelBroken:
    why = exc.strerror if isinstance(exc, OSError) and exc.strerror else type(exc).__name__
    return ChannelBroken(f"the connection to {peer} broke: {why}", hint="open the session again to reconnect")

"""One TCP connection as a Telnet client sees it: bytes in, terminal data and answers out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import cast

from transports.errors import ChannelBroken, ChannelClosed, ChannelEnded, ChannelError
from transports.receiver import Receiver

from .negotiation import Negotiation
from .nvt import Scanner

#: What one read may bring: enough for GB a second, and so little that a peer whose bytes are all commands holds up other
#: sessions for 35 ms at most.
READ_BYTES = 65536
#: What one write takes at most. Nothing more is taken until the kernel has it, so a ctrl_c has little before it.
WRITE_BYTES = 16384
#: What the kernel may hold unsent; what is on its way and unacknowledged is not counted, so a long way stays fast.
UNSENT_BYTES = 16384
#: Answers that a peer asks for without reading them. A single read can ask for some KB, an honest peer does once.
MAX_UNREAD_ANSWERS = 131_072

#: A console is silent for days, and a dead one is too: after a minute of silence the kernel asks, four times, 15 s apart.
KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


class Connection(asyncio.BufferedProtocol):
    """Feeds a receiver; reading is never paused.

    Args:
        receiver: gets the data, without IAC sequences and, unless it is BINARY, without NUL.
        negotiate: makes the negotiation, once there is a transport.
        peer: the far end's name, for messages.
    """

    def __init__(self, receiver: Receiver, negotiate: Callable[[asyncio.Transport], Negotiation], peer: str) -> None:
        self._receiver = receiver
        self._negotiate = negotiate
        self._peer = peer
        self._scanner = Scanner()
        self._buffer = bytearray()
        self._is_abandoned = False
        #: Why it is over, once it is: nothing can be written from then on.
        self.reason: ChannelError | None = None
        #: Set when the peer has sent something, or is gone; whoever waits clears it.
        self.heard = asyncio.Event()
        #: Whether the peer has sent ordinary data.
        self.has_data = False
        #: Set while `write` takes bytes, and when the connection is over.
        self.writable = asyncio.Event()
        #: Set when the last byte was delivered and the socket is released.
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=0)
        _set_options(self.transport.get_extra_info("socket"))
        self.negotiation = self._negotiate(self.transport)
        self.writable.set()

    def get_buffer(self, sizehint: int) -> bytearray:
        # Not kept while idle: a thousand silent consoles would hold 64 MB.
        self._buffer = bytearray(READ_BYTES)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(memoryview(self._buffer)[:nbytes])
        self._buffer = bytearray()
        self._take(data)
        if nbytes < READ_BYTES:  # the kernel had no more
            self._receiver.drained()
        self.heard.set()
        if self.transport.get_write_buffer_size() > MAX_UNREAD_ANSWERS:
            self._end(ChannelBroken(f"{self._peer} negotiates without end and reads no answer; is it a Telnet server?"))
            self.transport.abort()

    def eof_received(self) -> None:
        self._end(ChannelEnded(f"{self._peer} closed the connection"))
        self.transport.abort()  # what was not sent yet can reach nobody, and waiting for it could take for ever

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, OSError) and self.reason is None:
            self._take_what_is_left()
        reason = self._end(_broken(self._peer, exc) if exc else _closed(self._peer))
        if not self._is_abandoned:
            self._receiver.channel_ended(reason)
        self.negotiation.close()
        self.heard.set()
        self.lost.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def write(self, data: bytes) -> int:
        """Takes up to `WRITE_BYTES`, or nothing while the kernel has not taken what went before."""
        if not self.writable.is_set():
            return 0
        self.negotiation.send(data[:WRITE_BYTES])
        return min(len(data), WRITE_BYTES)

    def close(self) -> None:
        """Reads no more; what was written is still sent."""
        self._end(_closed(self._peer))
        self.transport.close()

    def abandon(self) -> None:
        """The open failed or was cancelled: whoever asked for it knows, so the receiver is not told of an end."""
        self._is_abandoned = True
        self._end(_closed(self._peer))

    def _take(self, data: bytes) -> None:
        has_text = False
        for event in self._scanner.feed(data):
            if not isinstance(event, bytes):
                self.negotiation.handle(event)
                continue
            # RFC 854: CR NUL is a CR, and NUL anywhere else does nothing. Both are padding, so no CR need be remembered.
            text = event if self.negotiation.receives_binary else event.replace(b"\0", b"")
            if text and not has_text:
                has_text = self.has_data = True
                self.negotiation.data_arrived()
            if text:
                self._receiver.data_received(text)

    def _take_what_is_left(self) -> None:
        """Delivers what came before a reset. A write that meets the reset first ends the transport's reading too early."""
        ours = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError), socket.fromfd(ours.fileno(), ours.family, ours.type) as rest:
            while data := rest.recv(READ_BYTES):
                self._take(data)

    def _end(self, reason: ChannelError) -> ChannelError:
        """The first reason is the one."""
        if self.reason is None:
            self.reason = reason
        self.writable.set()
        return self.reason


def _set_options(tcp: socket.socket) -> None:
    """The options without which Telnet over TCP fails; asyncio has set TCP_NODELAY."""
    # RFC 854, Synch: DM comes as urgent data. Taken out of line its byte is lost, and IAC before it swallows the next one.
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {**KEEPALIVE, "TCP_NOTSENT_LOWAT": UNSENT_BYTES}.items():
        if (option := getattr(socket, name, None)) is not None:
            tcp.setsockopt(socket.IPPROTO_TCP, option, value)


def _closed(peer: str) -> ChannelClosed:
    return ChannelClosed(f"the connection to {peer} was closed from this side")


def _broken(peer: str, exc: Exception) -> ChannelBroken:
    why = exc.strerror if isinstance(exc, OSError) and exc.strerror else type(exc).__name__
    return ChannelBroken(f"the connection to {peer} broke: {why}; open the session again to reconnect")

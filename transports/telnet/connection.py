"""The TCP connection of a Telnet client: passes data to the receiver and commands to the negotiation."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import cast

from transports.channel import Pty
from transports.errors import ChannelBroken, ChannelClosed, ChannelEnded, ChannelError, ReceiverFailed, WriteRightEnded
from transports.output_delivery import OutputDelivery
from transports.receiver import Receiver, end_receiver
from transports.tcp import ACKNOWLEDGED_POLL_S, OutputGuard

from .connect_options import Keepalive
from .negotiation import TelnetNegotiation
from .parser import TelnetParser

#: Size of one read, bytes: large enough for hundreds of MB/s, small enough that a read of nothing but commands blocks the event
#: loop for less than 10 ms.
READ_BYTES = 16384
#: Size of one read after one with more commands than one in `BYTES_PER_COMMAND` bytes: about 2 ms of commands.
FLOOD_READ_BYTES = 2048
BYTES_PER_COMMAND = 128
#: Maximum size of one write, bytes. No more is accepted until the kernel has taken it, so a ctrl_c is never far behind.
WRITE_BYTES = 16384
#: Limit for unsent bytes in the kernel (TCP_NOTSENT_LOWAT). Unacknowledged bytes do not count, so throughput is unaffected.
UNSENT_BYTES = 16384
#: Limit for responses that the peer requests but does not read, bytes. One read can request a few KB.
MAX_UNREAD_ANSWERS = 131_072

#: TCP keepalive: four probes at intervals of 15 s after a minute of silence. A console can be silent for days.
KEEPALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}


class TelnetConnection(asyncio.BufferedProtocol):
    """An asyncio protocol that feeds a receiver. Reading is paused while read data waits for its delivery.

    Args:
        receiver: gets the data without IAC sequences and, unless BINARY is on, without NUL.
        negotiate: creates the negotiation for the transport.
        peer: the name of the remote end in messages.
        guard: creates the guard of the socket, if the right to write can end.
    """

    def __init__(
        self,
        receiver: Receiver,
        negotiate: Callable[[asyncio.Transport], TelnetNegotiation],
        peer: str,
        guard: Callable[[socket.socket], OutputGuard] | None = None,
    ) -> None:
        self._receiver = receiver
        self._negotiate = negotiate
        self._peer = peer
        self._make_guard = guard
        self._guard: OutputGuard | None = None
        self._parser = TelnetParser()
        self._buffer = bytearray()
        self._read_bytes = READ_BYTES
        self._delivery = OutputDelivery(
            receiver, lambda: self._transport.pause_reading(), lambda: self._transport.resume_reading(), self._receiver_failed
        )
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
        tcp = self._transport.get_extra_info("socket")
        _set_options(tcp)
        self._guard = self._make_guard(tcp) if self._make_guard is not None else None
        self._output = TelnetOutput(self._transport, self._guard)
        self.negotiation = self._negotiate(cast("asyncio.Transport", self._output))
        self.writable.set()

    def get_buffer(self, sizehint: int) -> bytearray:
        # Allocated per read: permanent buffers of 1000 idle consoles would take 64 MB.
        self._buffer = bytearray(self._read_bytes)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data, is_full = bytes(memoryview(self._buffer)[:nbytes]), nbytes == len(self._buffer)
        self._buffer = bytearray()
        self._output.send_held()
        commands = self._process(data)
        self._read_bytes = FLOOD_READ_BYTES if commands * BYTES_PER_COMMAND > nbytes else READ_BYTES
        if not is_full:  # the kernel has no more data
            self._delivery.drained()
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
        self._end(_broken(self._peer, exc) if exc else _closed(self._peer))
        self.negotiation.close()
        self.activity.set()
        self._delivery.then(self._delivered)

    def _delivered(self) -> None:
        assert self.reason is not None
        if not self._is_abandoned:
            end_receiver(self._receiver, self.reason)
        self.lost.set()

    def _receiver_failed(self, reason: ReceiverFailed) -> None:
        self.reason = reason  # also after the end of the connection, whose last bytes are lost
        self.writable.set()
        self.abort()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def write(self, data: bytes) -> int:
        """Accept up to `WRITE_BYTES`; 0 while the kernel has not taken the previous write."""
        if not self.writable.is_set():
            return 0
        if self._guard is not None:
            if not self._guard.may_send():
                raise WriteRightEnded(f"the right to write to {self._peer} has ended")
            if self._guard.unacknowledged() > MAX_UNACKNOWLEDGED:
                self.writable.clear()
                asyncio.get_running_loop().call_later(ACKNOWLEDGED_POLL_S, self._check_acknowledged, self._guard)
                return 0
        self.negotiation.send(data[:WRITE_BYTES])
        return min(len(data), WRITE_BYTES)

    def _check_acknowledged(self, guard: OutputGuard) -> None:
        """Accept further bytes once the far end has acknowledged the previous ones."""
        if self.reason is not None:
            return
        if guard.unacknowledged() > MAX_UNACKNOWLEDGED:
            asyncio.get_running_loop().call_later(ACKNOWLEDGED_POLL_S, self._check_acknowledged, guard)
        else:
            self.writable.set()

    def resize(self, pty: Pty) -> None:
        """Set the window size, and send it if the peer has asked for it."""
        self.negotiation.resize(pty)

    def send_break(self) -> None:
        """Send a break."""
        self.negotiation.send_break()

    def send_keepalive(self, command: Keepalive) -> None:
        """Send a keepalive unless the kernel still has unsent output."""
        if self.writable.is_set():
            self.negotiation.send_keepalive(command)

    def abort(self) -> None:
        """Close the connection at once, without sending the remaining output."""
        if self._guard is not None and not self._transport.is_closing() and self._guard.unacknowledged():
            self._guard.discard_on_close()
        self._transport.abort()

    def close(self) -> None:
        """Stop reading, send the remaining output, then close."""
        self._end(_closed(self._peer))
        if self._guard is None:
            self._transport.close()
        else:
            self._close_when_acknowledged(self._guard)

    def _close_when_acknowledged(self, guard: OutputGuard) -> None:
        if self._transport.is_closing():
            return
        if guard.unacknowledged():
            asyncio.get_running_loop().call_later(ACKNOWLEDGED_POLL_S, self._close_when_acknowledged, guard)
        else:
            self._transport.close()

    def abandon(self) -> None:
        """End after a failed or cancelled open, without `channel_ended`."""
        self._is_abandoned = True
        self._delivery.discard()
        self._end(_closed(self._peer))

    def _process(self, data: bytes) -> int:
        """Deliver the text of a read as one piece, after its commands. Return the number of commands."""
        texts: list[bytes] = []
        commands = 0
        for event in self._parser.feed(data):
            if not isinstance(event, bytes):
                commands += 1
                self.negotiation.handle(event)
                continue
            # RFC 854: CR NUL is a CR, and NUL elsewhere has no effect. All NULs are padding; no state is needed for CR.
            text = event if self.negotiation.receives_binary else event.replace(b"\0", b"")
            if text and not texts:
                self.has_data = True
                self.negotiation.data_received()
            if text:
                texts.append(text)
        if texts:
            self._delivery.deliver(b"".join(texts))
        return commands

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


#: Unacknowledged bytes up to which a further write is accepted: keys that are typed need not wait for each other.
MAX_UNACKNOWLEDGED = 64
#: Limit for answers that are held back, bytes.
MAX_HELD = 4096


class TelnetOutput:
    """Writes to a transport. With a guard, negotiation responses are held back while sending is not permitted."""

    def __init__(self, transport: asyncio.Transport, guard: OutputGuard | None) -> None:
        self._transport = transport
        self._guard = guard
        self._held = bytearray()

    def write(self, data: bytes) -> None:
        """Send bytes after the held bytes, or hold them back, too."""
        if self._guard is None:
            self._transport.write(data)
        elif not self._guard.may_send():
            self._held += data[: MAX_HELD - len(self._held)]
        else:
            self.send_held()
            self._transport.write(data)

    def send_held(self) -> None:
        """Send the held bytes if sending is permitted."""
        if self._held and self._guard is not None and self._guard.may_send():
            held = bytes(self._held)
            self._held.clear()
            self._transport.write(held)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

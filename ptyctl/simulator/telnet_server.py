"""Telnet listener of the simulated switch, and the server side of the protocol (RFC 854, 855, 1143)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Final, cast

from .terminal_lines import LineDriver, LineTable

SE, BRK, IP, EC, EL, SB, WILL, WONT, DO, DONT, IAC = 240, 243, 244, 247, 248, 250, 251, 252, 253, 254, 255

#: Option numbers (RFC 856, 857, 858, 1073).
BINARY, ECHO, SGA, NAWS = 0, 1, 3, 31

#: The data that a command represents: an escaped IAC, and the commands that act as a key.
COMMAND_DATA = {IAC: b"\xff", BRK: b"\x1e", IP: b"\x03", EC: b"\x7f", EL: b"\x15"}

#: Bytes of a subnegotiation that are kept; only NAWS (5 bytes) is used.
MAX_SUBNEGOTIATION = 64


class TelnetCodec:
    """Protocol state of one connection: decoding and option negotiation. Performs no I/O.

    Args:
        on_resize: Called with columns and rows of each window size (NAWS).
        insists: Repeat an offer each time it is refused, against RFC 854.
    """

    #: Options that this side supports for itself and for the peer.
    OURS: Final = frozenset({BINARY, ECHO, SGA})
    THEIRS: Final = frozenset({BINARY, NAWS, SGA})

    def __init__(self, on_resize: Callable[[int, int], None], *, insists: bool = False) -> None:
        self._on_resize = on_resize
        self._insists = insists
        #: Options that are on, and options with an unanswered request: (whether the option is ours, its number).
        self._on: set[tuple[bool, int]] = set()
        self._requested = {(True, ECHO), (True, SGA), (False, NAWS)}
        self._reply = bytearray()
        self._parser = self._parse()
        next(self._parser)

    @staticmethod
    def greeting() -> bytes:
        """Return the initial option requests, to send first."""
        return bytes([IAC, WILL, ECHO, IAC, WILL, SGA, IAC, DO, NAWS])

    @staticmethod
    def encode(data: bytes) -> bytes:
        """Escape data for the connection."""
        return data.replace(b"\xff", b"\xff\xff")

    def feed(self, received: bytes) -> tuple[bytes, bytes]:
        """Return the data in the received bytes, and the reply to send. Does not depend on how the bytes are split."""
        data = b"".join(map(self._parser.send, received))
        reply, self._reply = bytes(self._reply), bytearray()
        return data, reply

    def _parse(self) -> Generator[bytes, int, None]:
        """Receive the bytes of the peer one by one, and yield the data that each of them completes."""
        data = b""
        while True:
            byte = yield data
            data = bytes([byte])
            if byte != IAC:
                continue
            command = yield b""
            data = COMMAND_DATA.get(command, b"")
            if command in (WILL, WONT, DO, DONT):
                self._negotiate(command, (yield b""))
            elif command == SB:
                self._handle_subnegotiation((yield from self._parse_subnegotiation()))

    def _parse_subnegotiation(self) -> Generator[bytes, int, bytes]:
        payload = bytearray()
        while True:
            byte = yield b""
            if byte == IAC:
                byte = yield b""
                if byte == SE:
                    return bytes(payload)
                if byte != IAC:
                    continue
            if len(payload) < MAX_SUBNEGOTIATION:
                payload.append(byte)

    def _handle_subnegotiation(self, payload: bytes) -> None:
        if len(payload) == 5 and payload[0] == NAWS:
            self._on_resize(int.from_bytes(payload[1:3], "big"), int.from_bytes(payload[3:], "big"))

    def _negotiate(self, verb: int, number: int) -> None:
        """Reply only to changes, which prevents negotiation loops (RFC 854)."""
        is_ours, enable = verb in (DO, DONT), verb in (DO, WILL)
        option = (is_ours, number)
        is_answer, was_on = option in self._requested, option in self._on
        if self._insists and verb == DONT and is_answer:
            self._reply += bytes([IAC, WILL, number])
            return
        self._requested.discard(option)
        agree = enable and number in (self.OURS if is_ours else self.THEIRS)
        if agree:
            self._on.add(option)
        else:
            self._on.discard(option)
        if not is_answer and enable != was_on:
            verbs = (WILL, WONT) if is_ours else (DO, DONT)
            self._reply += bytes([IAC, verbs[0] if agree else verbs[1], number])


class TelnetServerConnection(asyncio.Protocol):
    """A client connection: an asyncio protocol, and a `LineConnection` of its line."""

    _transport: asyncio.Transport
    _line: LineDriver

    def __init__(self, lines: LineTable, connections: set[TelnetServerConnection]) -> None:
        self._lines, self._connections = lines, connections
        self._codec = TelnetCodec(self._resize, insists=lines.quirks.insists_on_options)
        #: Completed when the connection is closed.
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self._line = self._lines.open()
        self._transport.write(self._codec.greeting())
        self._line.attach(self)

    def data_received(self, data: bytes) -> None:
        typed, reply = self._codec.feed(data)
        if reply:
            self._transport.write(reply)
        if typed:
            self._line.receive(typed)

    def pause_writing(self) -> None:
        self._line.pause_output(self)

    def resume_writing(self) -> None:
        self._line.resume_output(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._lines.release(self._line, self)
        self.closed.set_result(None)

    # LineConnection

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._codec.encode(data))

    def close(self) -> None:
        self._transport.close()

    def drop(self) -> None:
        # FIN instead of RST: a reset would also discard data that the client has not read yet.
        self.close()

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection without sending queued output."""
        self._transport.abort()

    def _resize(self, cols: int, rows: int) -> None:
        self._line.resize(cols, rows)


@asynccontextmanager
async def telnet_listener(lines: LineTable, host: str) -> AsyncIterator[int]:
    """Listen on a free port while the context is open; yield the port."""
    connections: set[TelnetServerConnection] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: TelnetServerConnection(lines, connections), host, 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        # A connection that was being accepted when the listener closed may be added meanwhile.
        while connections:
            connection = next(iter(connections))
            connection.abort()
            await connection.closed
        await server.wait_closed()

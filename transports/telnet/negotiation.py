"""Which Telnet options hold, and who answers for them: telnetlib3's interpreter, kept to the options a terminal needs."""

from __future__ import annotations

import asyncio
import struct

from telnetlib3.stream_writer import TelnetWriter
from telnetlib3.telopt import AYT, BINARY, BRK, DO, DONT, ECHO, NAWS, NEW_ENVIRON, NOP, SB, SE, SEND, SGA, TM, TTYPE, WILL, WONT

from transports.channel import Pty

from .nvt import IAC, Command, Subnegotiation
from .options import Keepalive

#: A peer that goes on changing options while it sends no data is caught in a loop: it is not answered until the next data.
#: telnetd's negotiation, the longest met, takes ten. Each change costs 20 us, so this bounds the cost of a read too.
MAX_CHANGES_WITHOUT_DATA = 100

#: How a request is refused. Sent for WONT and DONT too: RFC 1143 has it confirmed that an option is off, and a peer that
#: keeps count, as telnetd does, counts wrong without.
_NO = {DO: WONT, DONT: WONT, WILL: DONT, WONT: DONT}

#: RFC 860 has each one answered, and a WONT marks the time as well. telnetd takes a WILL for "kludge linemode", a client that
#: edits lines: it would turn SGA off and on with each prompt.
_TIMING_MARK = Command(DO, TM)


class Negotiation:
    """Answers each request once. Whatever is not needed is refused: MCCP above all, by which 48 KB become 50 MB."""

    def __init__(self, transport: asyncio.Transport, *, binary: bool | None, pty: Pty | None, term: str) -> None:
        both = set() if binary is False else {BINARY}
        self._ours = {SGA} | both if pty is None else {SGA, TTYPE, NAWS, NEW_ENVIRON} | both
        self._theirs = {SGA, ECHO} | both
        self._refused: set[Command] = set()
        self._changes = 0
        self._pty = pty
        self._term = term
        self._transport = transport
        self._writer = TelnetWriter(transport, None, client=True)
        self._writer.set_ext_send_callback(TTYPE, lambda: term)
        self._writer.set_ext_send_callback(NEW_ENVIRON, self._environment)
        self._writer.set_ext_send_callback(NAWS, self._size)
        if binary:
            self._writer.iac(WILL, BINARY)
            self._writer.iac(DO, BINARY)

    @property
    def sends_binary(self) -> bool:
        """Whether what we send is BINARY (RFC 856): then CR stands for itself, and NUL behind it would be a character."""
        return self._writer.outbinary

    @property
    def receives_binary(self) -> bool:
        """Whether what the peer sends is BINARY: then NUL is data, not padding."""
        return self._writer.inbinary

    def handle(self, event: Command | Subnegotiation) -> None:
        """Answers the peer, where an answer is due."""
        if self._changes >= MAX_CHANGES_WITHOUT_DATA:
            return
        if isinstance(event, Subnegotiation):
            if self._is_asked_for(event.payload):
                self._feed(IAC + SB + event.payload.replace(IAC, IAC + IAC) + IAC + SE)
        elif event.verb in (DO, WILL):
            self._request(event)
        else:
            self._withdrawal(event)

    def data_arrived(self) -> None:
        """The peer is not caught in a loop. Told once a read, or it would bound nothing."""
        self._changes = 0

    def resize(self, pty: Pty) -> None:
        """Keeps the size for when it is asked for, and tells it where NAWS is on (RFC 1073)."""
        self._pty = pty
        if self._writer.local_option.enabled(NAWS):
            size = struct.pack("!HH", pty.cols, pty.rows).replace(IAC, IAC + IAC)
            self._writer.send_iac(IAC + SB + NAWS + size + IAC + SE)

    def send(self, data: bytes) -> None:
        """Sends data; IAC in it is doubled (RFC 854)."""
        self._transport.write(data.replace(IAC, IAC + IAC))

    def send_break(self) -> None:
        """Sends IAC BRK (RFC 854)."""
        self._writer.send_iac(IAC + BRK)

    def keep_alive(self, command: Keepalive) -> None:
        """Sends IAC NOP or IAC AYT (RFC 854)."""
        self._writer.send_iac(IAC + {"nop": NOP, "ayt": AYT}[command])

    def close(self) -> None:
        """Lets go of the transport."""
        self._writer.close()

    def _request(self, command: Command) -> None:
        """What is on already needs no answer (RFC 1143)."""
        if command == _TIMING_MARK:
            self._changes += 1
            self._writer.send_iac(IAC + WONT + TM)
        elif command.option not in (self._ours if command.verb == DO else self._theirs):
            self._refuse(command)
        elif not self._is_on(command):
            self._feed(IAC + command.verb + command.option)

    def _refuse(self, command: Command) -> None:
        """Says no once: some switches ask again for as long as they hear it."""
        if command not in self._refused:
            self._refused.add(command)
            self._writer.send_iac(IAC + _NO[command.verb] + command.option)

    def _withdrawal(self, command: Command) -> None:
        """WONT or DONT: the answer to a request of ours, or the end of an option, or nothing new."""
        asked = self._writer.pending_option.enabled((WILL if command.verb == DONT else DO) + command.option)
        was_on = self._is_on(command)
        if asked or was_on:
            self._feed(IAC + command.verb + command.option)
        if was_on:
            self._writer.send_iac(IAC + _NO[command.verb] + command.option)

    def _is_on(self, command: Command) -> bool:
        ours = command.verb in (DO, DONT)
        return (self._writer.local_option if ours else self._writer.remote_option).enabled(command.option)

    def _feed(self, command: bytes) -> None:
        self._changes += 1
        for byte in command:
            self._writer.feed_byte(bytes((byte,)))

    def _is_asked_for(self, payload: bytes) -> bool:
        """Whether it is a SEND for an option that is on. The library raises on some others: none of them needs an answer."""
        option = payload[:1]
        return payload[1:2] == SEND and option in (TTYPE, NEW_ENVIRON) and self._writer.local_option.enabled(option)

    def _size(self) -> tuple[int, int]:
        assert self._pty is not None  # NAWS is refused without a terminal
        return self._pty.rows, self._pty.cols

    def _environment(self, names: list[str]) -> dict[str, str]:
        """TERM is all that the far end may know of us (RFC 1572); no names are a request for everything."""
        return {"TERM": self._term} if not names or "TERM" in names else {}

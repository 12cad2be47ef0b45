"""Which Telnet options hold, and who answers for them: telnetlib3's interpreter, kept to the options a terminal needs."""

from __future__ import annotations

import asyncio
import struct
from functools import lru_cache

from telnetlib3.stream_writer import TelnetWriter
from telnetlib3.telopt import BINARY, BRK, DO, DONT, ECHO, NAWS, NEW_ENVIRON, SB, SE, SEND, SGA, TM, TTYPE, WILL, WONT

from transports.channel import Pty

from .nvt import IAC, Command, Subnegotiation

#: A peer that goes on changing options while it sends no data is caught in a loop: it is heard no more until it does. The
#: longest negotiation met in the field takes some twenty changes.
MAX_CHANGES_WITHOUT_DATA = 100

#: RFC 1143: that an option was turned off is confirmed, or a peer that keeps count (telnetd does) counts wrong from then on.
_CONFIRMATION = {WONT: DONT, DONT: WONT}


class Negotiation:
    """Answers each request once. Whatever is not needed is refused: MCCP above all, by which 48 KB become 50 MB."""

    def __init__(self, transport: asyncio.Transport, *, binary: bool | None, pty: Pty | None, term: str) -> None:
        ours = {SGA} if pty is None else {SGA, TTYPE, NAWS, NEW_ENVIRON}
        theirs = {SGA, ECHO}
        both = set() if binary is False else {BINARY}
        self._pty = pty
        self._term = term
        self._changes = 0
        self._writer = TelnetWriter(transport, None, client=True)
        self._writer.always_wont = _all_but(frozenset(ours | both | {TM}))
        self._writer.always_dont = _all_but(frozenset(theirs | both))
        self._writer.compression = False
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
        elif self._is_news(event):
            withdrawn = self._is_on(event)
            self._feed(IAC + event.verb + event.option)
            if withdrawn:
                self._writer.send_iac(IAC + _CONFIRMATION[event.verb] + event.option)

    def data_arrived(self) -> None:
        """The peer is past its negotiation."""
        self._changes = 0

    def resize(self, pty: Pty) -> None:
        """Keeps the size for when it is asked for, and tells it where NAWS is on (RFC 1073)."""
        self._pty = pty
        if self._writer.local_option.enabled(NAWS):
            size = struct.pack("!HH", pty.cols, pty.rows).replace(IAC, IAC + IAC)
            self._writer.send_iac(IAC + SB + NAWS + size + IAC + SE)

    def send(self, data: bytes) -> None:
        """Sends data; IAC in it is doubled (RFC 854)."""
        self._writer.write(data)

    def send_break(self) -> None:
        """Sends IAC BRK (RFC 854)."""
        self._writer.send_iac(IAC + BRK)

    def close(self) -> None:
        """Lets go of the transport."""
        self._writer.close()

    def _feed(self, command: bytes) -> None:
        self._changes += 1
        for byte in command:
            self._writer.feed_byte(bytes((byte,)))

    def _is_on(self, command: Command) -> bool:
        ours = command.verb in (DO, DONT)
        options = self._writer.local_option if ours else self._writer.remote_option
        return command.verb in _CONFIRMATION and options.enabled(command.option)

    def _is_news(self, command: Command) -> bool:
        """Whether it asks for a change that has not been made or refused (RFC 1143); a timing mark always does (RFC 860)."""
        writer, verb, option = self._writer, command.verb, command.option
        if verb == DO:
            refused = option in writer.always_wont and option in writer.local_option
            return option == TM or not (refused or writer.local_option.enabled(option))
        if verb == WILL:
            refused = option in writer.always_dont and option in writer.remote_option
            return not (refused or writer.remote_option.enabled(option))
        asked = writer.pending_option.enabled((DO if verb == WONT else WILL) + option)
        return asked or self._is_on(command)

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


@lru_cache
def _all_but(accepted: frozenset[bytes]) -> set[bytes]:
    """Shared by all connections that accept the same options; nobody changes it."""
    return {bytes((option,)) for option in range(256)} - accepted

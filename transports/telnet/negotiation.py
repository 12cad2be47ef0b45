"""Telnet option negotiation: telnetlib3's state machine, restricted to the options that a terminal needs."""

from __future__ import annotations

import asyncio
import struct

from telnetlib3.stream_writer import TelnetWriter
from telnetlib3.telopt import AYT, BINARY, BRK, DO, DONT, ECHO, NAWS, NEW_ENVIRON, NOP, SB, SE, SEND, SGA, TM, TTYPE, WILL, WONT

from transports.channel import Pty

from .connect_options import Keepalive
from .parser import IAC, Subnegotiation, TelnetCommand

#: Maximum number of option changes between two reads of data; protects against a negotiation loop. Further requests are ignored
#: until data arrives. The longest legitimate negotiation observed, telnetd's, has ten. At 20 us each, it also bounds one read.
MAX_CHANGES_WITHOUT_DATA = 100

#: The refusal for each request. WONT and DONT are acknowledged too: RFC 1143 requires it, and peers that count
#: acknowledgements (telnetd) lose synchronisation without.
_REFUSAL = {DO: WONT, DONT: WONT, WILL: DONT, WONT: DONT}

#: RFC 860 requires a response to each, and WONT also marks the time. telnetd interprets a WILL as a client with local line
#: editing ("kludge linemode") and would then toggle SGA at each prompt.
_TIMING_MARK = TelnetCommand(DO, TM)


class TelnetNegotiation:
    """Responds to each option request once.

    Refuses all options that a terminal does not need, compression (MCCP) in particular: 48 KB can decompress to 50 MB.
    """

    def __init__(self, transport: asyncio.Transport, *, binary: bool | None, pty: Pty | None, term: str) -> None:
        both = set() if binary is False else {BINARY}
        self._ours = {SGA} | both if pty is None else {SGA, TTYPE, NAWS, NEW_ENVIRON} | both
        self._theirs = {SGA, ECHO} | both
        self._refused: set[TelnetCommand] = set()
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
        """Whether BINARY (RFC 856) is on in our direction: then CR needs no NUL after it."""
        return self._writer.outbinary

    @property
    def receives_binary(self) -> bool:
        """Whether BINARY is on in the peer's direction: then NUL is data, not padding."""
        return self._writer.inbinary

    def handle(self, event: TelnetCommand | Subnegotiation) -> None:
        """Process a command of the peer and send the response that it requires."""
        if self._changes >= MAX_CHANGES_WITHOUT_DATA:
            return
        if isinstance(event, Subnegotiation):
            if self._is_supported_request(event.payload):
                self._feed(IAC + SB + event.payload.replace(IAC, IAC + IAC) + IAC + SE)
        elif event.verb in (DO, WILL):
            self._request(event)
        else:
            self._withdrawal(event)

    def data_received(self) -> None:
        """Reset the loop protection. Called at most once per read, so that the protection is effective."""
        self._changes = 0

    def resize(self, pty: Pty) -> None:
        """Set the window size, and send it if NAWS is on (RFC 1073)."""
        self._pty = pty
        if self._writer.local_option.enabled(NAWS):
            size = struct.pack("!HH", pty.cols, pty.rows).replace(IAC, IAC + IAC)
            self._writer.send_iac(IAC + SB + NAWS + size + IAC + SE)

    def send(self, data: bytes) -> None:
        """Send data with IAC doubled (RFC 854)."""
        self._transport.write(data.replace(IAC, IAC + IAC))

    def send_break(self) -> None:
        """Send IAC BRK (RFC 854)."""
        self._writer.send_iac(IAC + BRK)

    def send_keepalive(self, command: Keepalive) -> None:
        """Send IAC NOP or IAC AYT (RFC 854)."""
        self._writer.send_iac(IAC + {"nop": NOP, "ayt": AYT}[command])

    def close(self) -> None:
        """Release the transport."""
        self._writer.close()

    def _request(self, command: TelnetCommand) -> None:
        """Process WILL or DO. A request for an option that is on already gets no response (RFC 1143)."""
        if command == _TIMING_MARK:
            self._changes += 1
            self._writer.send_iac(IAC + WONT + TM)
        elif command.option not in (self._ours if command.verb == DO else self._theirs):
            self._refuse(command)
        elif not self._is_on(command):
            self._feed(IAC + command.verb + command.option)

    def _refuse(self, command: TelnetCommand) -> None:
        """Refuse a request once: some switches repeat it after each refusal."""
        if command not in self._refused:
            self._refused.add(command)
            self._writer.send_iac(IAC + _REFUSAL[command.verb] + command.option)

    def _withdrawal(self, command: TelnetCommand) -> None:
        """Process WONT or DONT: the response to our request, the end of an option, or no change."""
        asked = self._writer.pending_option.enabled((WILL if command.verb == DONT else DO) + command.option)
        was_on = self._is_on(command)
        if asked or was_on:
            self._feed(IAC + command.verb + command.option)
        if was_on:
            self._writer.send_iac(IAC + _REFUSAL[command.verb] + command.option)

    def _is_on(self, command: TelnetCommand) -> bool:
        ours = command.verb in (DO, DONT)
        return (self._writer.local_option if ours else self._writer.remote_option).enabled(command.option)

    def _feed(self, command: bytes) -> None:
        self._changes += 1
        for byte in command:
            self._writer.feed_byte(bytes((byte,)))

    def _is_supported_request(self, payload: bytes) -> bool:
        """Return whether it is a SEND for an option that is on. telnetlib3 raises on some others; none needs a response."""
        option = payload[:1]
        return payload[1:2] == SEND and option in (TTYPE, NEW_ENVIRON) and self._writer.local_option.enabled(option)

    def _size(self) -> tuple[int, int]:
        assert self._pty is not None  # NAWS is refused without a terminal
        return self._pty.rows, self._pty.cols

    def _environment(self, names: list[str]) -> dict[str, str]:
        """Return TERM, the only variable that is sent (RFC 1572); an empty list of names requests all variables."""
        return {"TERM": self._term} if not names or "TERM" in names else {}

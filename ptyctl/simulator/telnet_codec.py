"""Server side of the Telnet protocol (RFC 854, 855, 1143): decoding and option negotiation. Performs no I/O."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

SE, BRK, IP, EC, EL, SB, WILL, WONT, DO, DONT, IAC = 240, 243, 244, 247, 248, 250, 251, 252, 253, 254, 255

#: Option numbers (RFC 856, 857, 858, 1073).
BINARY, ECHO, SGA, NAWS = 0, 1, 3, 31

#: Commands that act as a key.
KEYS = {BRK: b"\x1e", IP: b"\x03", EC: b"\x7f", EL: b"\x15"}

#: Bytes of a subnegotiation that are kept; only NAWS (5 bytes) is used.
MAX_SUBNEGOTIATION = 64


class _ParserState(Enum):
    DATA = auto()
    COMMAND = auto()
    OPTION = auto()
    SUBNEGOTIATION = auto()
    SUBNEGOTIATION_COMMAND = auto()


class _OptionState(Enum):
    """State of an option (RFC 1143), without the states for disabling one, which this server never does."""

    NO = auto()
    REQUESTED = auto()
    YES = auto()


class TelnetCodec:
    """Protocol state of one connection.

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
        self._state = _ParserState.DATA
        self._verb = 0
        self._payload = bytearray()
        self._ours = {ECHO: _OptionState.REQUESTED, SGA: _OptionState.REQUESTED}
        self._theirs = {NAWS: _OptionState.REQUESTED}
        self._reply = bytearray()

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
        data = bytearray()
        for byte in received:
            data += self._parse(byte)
        reply, self._reply = bytes(self._reply), bytearray()
        return bytes(data), reply

    def _parse(self, byte: int) -> bytes:
        match self._state:
            case _ParserState.DATA:
                return self._parse_data(byte)
            case _ParserState.COMMAND:
                return self._parse_command(byte)
            case _ParserState.OPTION:
                self._state = _ParserState.DATA
                self._negotiate(self._verb, byte)
            case _ParserState.SUBNEGOTIATION:
                self._parse_subnegotiation(byte)
            case _ParserState.SUBNEGOTIATION_COMMAND:
                self._parse_subnegotiation_command(byte)
        return b""

    def _parse_data(self, byte: int) -> bytes:
        if byte != IAC:
            return bytes([byte])
        self._state = _ParserState.COMMAND
        return b""

    def _parse_command(self, byte: int) -> bytes:
        self._state = _ParserState.DATA
        if byte == IAC:
            return b"\xff"
        if byte == SB:
            self._payload.clear()
            self._state = _ParserState.SUBNEGOTIATION
        elif byte in (WILL, WONT, DO, DONT):
            self._verb = byte
            self._state = _ParserState.OPTION
        return KEYS.get(byte, b"")

    def _parse_subnegotiation(self, byte: int) -> None:
        if byte == IAC:
            self._state = _ParserState.SUBNEGOTIATION_COMMAND
        elif len(self._payload) < MAX_SUBNEGOTIATION:
            self._payload.append(byte)

    def _parse_subnegotiation_command(self, byte: int) -> None:
        self._state = _ParserState.SUBNEGOTIATION
        if byte == IAC:
            self._payload.append(IAC)
        elif byte == SE:
            self._state = _ParserState.DATA
            if len(self._payload) == 5 and self._payload[0] == NAWS:
                cols, rows = self._payload[1:3], self._payload[3:5]
                self._on_resize(int.from_bytes(cols, "big"), int.from_bytes(rows, "big"))

    def _negotiate(self, verb: int, option: int) -> None:
        """Reply only to changes, which prevents negotiation loops (RFC 854)."""
        if verb in (DO, DONT):
            states, supported, agree, refuse = self._ours, option in self.OURS, WILL, WONT
        else:
            states, supported, agree, refuse = self._theirs, option in self.THEIRS, DO, DONT
        before = states.get(option, _OptionState.NO)
        enable = verb in (DO, WILL)
        if self._insists and verb == DONT and before is _OptionState.REQUESTED:
            self._reply += bytes([IAC, WILL, option])
            return
        states[option] = _OptionState.YES if enable and supported else _OptionState.NO
        if enable and before is _OptionState.NO:
            self._reply += bytes([IAC, agree if supported else refuse, option])
        elif not enable and before is _OptionState.YES:
            self._reply += bytes([IAC, refuse, option])

"""The server's side of Telnet (RFC 854, 855): takes commands out of the stream, negotiates options. Pure."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

SE, BRK, IP, EC, EL, SB, WILL, WONT, DO, DONT, IAC = 240, 243, 244, 247, 248, 250, 251, 252, 253, 254, 255

#: Option numbers: RFC 856, 857, 858, 1073.
BINARY, ECHO, SGA, NAWS = 0, 1, 3, 31

#: Commands that mean a key.
KEYS = {BRK: b"\x1e", IP: b"\x03", EC: b"\x7f", EL: b"\x15"}

#: NAWS has 4 bytes; whatever is much longer is not for us and is not kept.
MAX_SUBNEGOTIATION = 64


class _State(Enum):
    DATA = auto()
    COMMAND = auto()
    OPTION = auto()
    SUBNEGOTIATION = auto()
    SUBNEGOTIATION_COMMAND = auto()


class _Answer(Enum):
    """What an option is (RFC 1143, without the states for turning one off, which this server never does)."""

    NO = auto()
    ASKED = auto()
    YES = auto()


class TelnetCodec:
    """One connection. `resized` is called with the columns and rows of each NAWS.

    `insists` breaks the rule: a refusal of what this side offers is answered with the same offer, however often.
    """

    #: What this side does, and what it wants the other side to do.
    OURS: Final = frozenset({BINARY, ECHO, SGA})
    THEIRS: Final = frozenset({BINARY, NAWS, SGA})

    def __init__(self, resized: Callable[[int, int], None], *, insists: bool = False) -> None:
        self._resized = resized
        self._insists = insists
        self._state = _State.DATA
        self._verb = 0
        self._payload = bytearray()
        self._ours = {ECHO: _Answer.ASKED, SGA: _Answer.ASKED}
        self._theirs = {NAWS: _Answer.ASKED}
        self._reply = bytearray()

    @staticmethod
    def greeting() -> bytes:
        """What to send first: the options that `__init__` counts as asked for."""
        return bytes([IAC, WILL, ECHO, IAC, WILL, SGA, IAC, DO, NAWS])

    @staticmethod
    def encode(data: bytes) -> bytes:
        """Data for the wire."""
        return data.replace(b"\xff", b"\xff\xff")

    def feed(self, received: bytes) -> tuple[bytes, bytes]:
        """What came in, however it was cut: the data in it, and the bytes to answer."""
        data = bytearray()
        for byte in received:
            data += self._byte(byte)
        reply, self._reply = bytes(self._reply), bytearray()
        return bytes(data), reply

    def _byte(self, byte: int) -> bytes:
        match self._state:
            case _State.DATA:
                return self._on_data(byte)
            case _State.COMMAND:
                return self._on_command(byte)
            case _State.OPTION:
                self._state = _State.DATA
                self._negotiate(self._verb, byte)
            case _State.SUBNEGOTIATION:
                self._on_subnegotiation(byte)
            case _State.SUBNEGOTIATION_COMMAND:
                self._on_subnegotiation_command(byte)
        return b""

    def _on_data(self, byte: int) -> bytes:
        if byte != IAC:
            return bytes([byte])
        self._state = _State.COMMAND
        return b""

    def _on_command(self, byte: int) -> bytes:
        self._state = _State.DATA
        if byte == IAC:
            return b"\xff"
        if byte == SB:
            self._payload.clear()
            self._state = _State.SUBNEGOTIATION
        elif byte in (WILL, WONT, DO, DONT):
            self._verb = byte
            self._state = _State.OPTION
        return KEYS.get(byte, b"")

    def _on_subnegotiation(self, byte: int) -> None:
        if byte == IAC:
            self._state = _State.SUBNEGOTIATION_COMMAND
        elif len(self._payload) < MAX_SUBNEGOTIATION:
            self._payload.append(byte)

    def _on_subnegotiation_command(self, byte: int) -> None:
        self._state = _State.SUBNEGOTIATION
        if byte == IAC:
            self._payload.append(IAC)
        elif byte == SE:
            self._state = _State.DATA
            if len(self._payload) == 5 and self._payload[0] == NAWS:
                cols, rows = self._payload[1:3], self._payload[3:5]
                self._resized(int.from_bytes(cols, "big"), int.from_bytes(rows, "big"))

    def _negotiate(self, verb: int, option: int) -> None:
        """Answers only what changes something: the rule that keeps two sides from looping (RFC 854)."""
        if verb in (DO, DONT):
            answers, able, agree, refuse = self._ours, option in self.OURS, WILL, WONT
        else:
            answers, able, agree, refuse = self._theirs, option in self.THEIRS, DO, DONT
        before = answers.get(option, _Answer.NO)
        wanted = verb in (DO, WILL)
        if self._insists and verb == DONT and before is _Answer.ASKED:
            self._reply += bytes([IAC, WILL, option])
            return
        answers[option] = _Answer.YES if wanted and able else _Answer.NO
        if wanted and before is _Answer.NO:
            self._reply += bytes([IAC, agree if able else refuse, option])
        elif not wanted and before is _Answer.YES:
            self._reply += bytes([IAC, refuse, option])

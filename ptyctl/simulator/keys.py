"""Bytes in, keys out. One press of Enter is one key, whatever of CR, CR NUL, CR LF and LF it was sent as."""

from __future__ import annotations

from enum import Enum, auto


class Key(Enum):
    """Every key that is not a character."""

    ENTER = auto()
    BACKSPACE = auto()
    TAB = auto()
    CTRL_C = auto()
    CTRL_U = auto()
    CTRL_W = auto()
    CTRL_Z = auto()
    #: Ctrl-Shift-6 (Ctrl-^), the escape character of IOS.
    ESCAPE = auto()


#: The keys that stop a running command.
INTERRUPTS = frozenset({Key.CTRL_C, Key.ESCAPE})

CR, LF, ESC = 0x0D, 0x0A, 0x1B

CONTROLS = {
    CR: Key.ENTER,
    LF: Key.ENTER,
    0x08: Key.BACKSPACE,
    0x7F: Key.BACKSPACE,
    0x09: Key.TAB,
    0x03: Key.CTRL_C,
    0x15: Key.CTRL_U,
    0x18: Key.CTRL_U,
    0x17: Key.CTRL_W,
    0x1A: Key.CTRL_Z,
    0x1E: Key.ESCAPE,
}


class _State(Enum):
    GROUND = auto()
    AFTER_CR = auto()
    AFTER_ESC = auto()
    CSI = auto()
    SS3 = auto()


class KeyDecoder:
    """Takes bytes however they were cut. Arrows, function keys and Alt combinations (ECMA-48 sequences) give no key.

    `pairs` false makes two keys of CR LF, as a device does that has never heard of Telnet's line end.
    A character is one byte: an ASCII one as itself, any other as a lone surrogate (PEP 383), so that its echo is that byte.
    """

    def __init__(self, *, pairs: bool = True) -> None:
        self._state = _State.GROUND
        self._pairs = pairs

    def feed(self, data: bytes) -> list[Key | str]:
        keys = (self._byte(byte) for byte in data)
        return [key for key in keys if key is not None]

    def _byte(self, byte: int) -> Key | str | None:
        before, self._state = self._state, _State.GROUND
        if before is _State.AFTER_CR and byte == LF and self._pairs:
            return None  # the NUL of CR NUL is no key anyway
        if byte == ESC:
            self._state = _State.AFTER_ESC
            return None
        if byte < 0x20 or byte == 0x7F:
            # A control character also ends a broken sequence: a lone Esc must not eat the Enter behind it.
            self._state = _State.AFTER_CR if byte == CR else _State.GROUND
            return CONTROLS.get(byte)
        if before in (_State.AFTER_ESC, _State.CSI, _State.SS3):
            self._state = _after(before, byte)
            return None
        return bytes([byte]).decode("ascii", "surrogateescape")


def _after(state: _State, byte: int) -> _State:
    """The state that a printable byte of an escape sequence leads to."""
    if state is _State.AFTER_ESC:
        return {0x5B: _State.CSI, 0x4F: _State.SS3}.get(byte, _State.GROUND)
    is_final = state is _State.SS3 or byte >= 0x40
    return _State.GROUND if is_final else _State.CSI

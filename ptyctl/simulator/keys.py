"""Decoding of received bytes into key presses."""

from __future__ import annotations

from enum import Enum, auto


class Key(Enum):
    """A key press that is not a printable character."""

    ENTER = auto()
    BACKSPACE = auto()
    TAB = auto()
    CTRL_C = auto()
    CTRL_U = auto()
    CTRL_W = auto()
    CTRL_Z = auto()
    #: Ctrl-Shift-6 (Ctrl-^), the IOS escape character.
    ESCAPE = auto()


#: Keys that interrupt a running command.
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


class _DecoderState(Enum):
    GROUND = auto()
    AFTER_CR = auto()
    AFTER_ESC = auto()
    CSI = auto()
    SS3 = auto()


class KeyDecoder:
    """Incremental decoder: the result does not depend on how the input is split.

    Escape sequences (ECMA-48) of arrow keys, function keys and Alt combinations are ignored.
    A character is one byte: ASCII as itself, any other byte as a lone surrogate (PEP 383), so that it is echoed unchanged.

    Args:
        merge_crlf: CR LF is one Enter. If false, CR and LF are an Enter each.
    """

    def __init__(self, *, merge_crlf: bool = True) -> None:
        self._state = _DecoderState.GROUND
        self._merge_crlf = merge_crlf

    def feed(self, data: bytes) -> list[Key | str]:
        keys = (self._decode(byte) for byte in data)
        return [key for key in keys if key is not None]

    def _decode(self, byte: int) -> Key | str | None:
        before, self._state = self._state, _DecoderState.GROUND
        if before is _DecoderState.AFTER_CR and byte == LF and self._merge_crlf:
            return None
        if byte == ESC:
            self._state = _DecoderState.AFTER_ESC
            return None
        if byte < 0x20 or byte == 0x7F:
            # A control character also ends an incomplete sequence: a lone Esc must not swallow the next Enter.
            self._state = _DecoderState.AFTER_CR if byte == CR else _DecoderState.GROUND
            return CONTROLS.get(byte)
        if before in (_DecoderState.AFTER_ESC, _DecoderState.CSI, _DecoderState.SS3):
            self._state = _next_state(before, byte)
            return None
        return bytes([byte]).decode("ascii", "surrogateescape")


def _next_state(state: _DecoderState, byte: int) -> _DecoderState:
    """Return the state after a printable byte of an escape sequence."""
    if state is _DecoderState.AFTER_ESC:
        return {0x5B: _DecoderState.CSI, 0x4F: _DecoderState.SS3}.get(byte, _DecoderState.GROUND)
    is_final = state is _DecoderState.SS3 or byte >= 0x40
    return _DecoderState.GROUND if is_final else _DecoderState.CSI

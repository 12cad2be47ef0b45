"""Keyboard input: decoding of received bytes into key presses, and editing of one line with its echo."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

BELL = "\a"

#: Maximum length of an input line on IOS.
MAX_LINE = 254

#: Maps the line to its visible part.
LineView = Callable[[str], str]

#: Maps the visible text before and after a change to the output that updates the screen.
LinePainter = Callable[[str, str], str]


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


class KeyDecoder:
    """Incremental decoder: the result does not depend on how the input is split.

    Escape sequences (ECMA-48) of arrow keys, function keys and Alt combinations are ignored.
    A character is one byte: ASCII as itself, any other byte as a lone surrogate (PEP 383), so that it is echoed unchanged.

    Args:
        merge_crlf: CR LF is one Enter. If false, CR and LF are an Enter each.
    """

    def __init__(self, *, merge_crlf: bool = True) -> None:
        self._merge_crlf = merge_crlf
        self._after_cr = False
        #: The introducer of the current escape sequence: Esc, or the `[` or `O` after it. None outside of one.
        self._introducer: int | None = None

    def feed(self, data: bytes) -> list[Key | str]:
        keys = (self._decode(byte) for byte in data)
        return [key for key in keys if key is not None]

    def _decode(self, byte: int) -> Key | str | None:
        after_cr, self._after_cr = self._after_cr, byte == CR
        if byte < 0x20 or byte == 0x7F:
            # A control character also ends an incomplete sequence: a lone Esc must not swallow the next Enter.
            self._introducer = ESC if byte == ESC else None
            return None if byte == LF and after_cr and self._merge_crlf else CONTROLS.get(byte)
        if self._introducer is None:
            return bytes([byte]).decode("ascii", "surrogateescape")
        if self._introducer == ESC:
            self._introducer = byte if byte in b"[O" else None
        elif self._introducer == ord("O") or byte >= 0x40:
            self._introducer = None
        return None


def hide(_line: str) -> str:
    """Line view of input that is not echoed, such as a password."""
    return ""


def common_prefix_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def repaint(before: str, after: str) -> str:
    """Return the output that replaces `before` by `after`, with the cursor at the end of each."""
    kept = common_prefix_length(before, after)
    surplus = max(0, len(before) - len(after))
    if kept == len(after):
        return "\b \b" * surplus
    return "\b" * (len(before) - kept) + after[kept:] + " " * surplus + "\b" * surplus


class LineEditor:
    """Line editor that edits at the end of the line only: cursor keys are not supported."""

    def __init__(self, view: LineView = str, paint: LinePainter = repaint) -> None:
        self.text = ""
        self._view, self._paint = view, paint

    def type(self, key: Key | str) -> str:
        """Apply a key other than Enter and return its echo."""
        if isinstance(key, str):
            return self.replace(self.text + key) if len(self.text) < MAX_LINE else BELL
        match key:
            case Key.BACKSPACE:
                return self.replace(self.text[:-1])
            case Key.CTRL_U:
                return self.replace("")
            case Key.CTRL_W:
                return self.replace(self.text.rstrip()[: self.text.rstrip().rfind(" ") + 1])
            case _:
                return ""

    def replace(self, text: str) -> str:
        """Set the line to `text` and return the output that shows it."""
        before, self.text = self.text, text
        return self._paint(self._view(before), self._view(text))

    @property
    def visible_text(self) -> str:
        return self._view(self.text)

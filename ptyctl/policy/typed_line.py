"""The line that is being typed at a far end's line editor, followed key by key, to be judged before it is submitted.

The model knows the pending line, or knows that it does not: after Tab, a history key, a cursor movement, or any other key
whose effect depends on the far end, the line is unknown until it is submitted, discarded, or read from the screen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ptyctl.core.control_sequences import PASTE_BEGIN, PASTE_END

#: Longest pending line that is followed, in bytes; a longer one is unknown.
MAX_LINE = 65_536
#: How much of the lines before the pending one is kept, in bytes, because they may be the begin of the same command.
_MAX_CONTINUED = 65_536
_ENTER = frozenset(b"\r\n")
_PASTE_MARKS = (PASTE_BEGIN, PASTE_END)
#: Keys that submit the line at some far ends: ^D (a terminal in canonical mode), ^O (bash), ^X ^E (bash), ^Z (Cisco IOS).
_MAY_SUBMIT = frozenset(b"\x04\x0f\x18\x1a")
#: The next byte is inserted as it is (bash, zsh, Cisco IOS), a CR too.
_QUOTE = 0x16


class LineKeys(NamedTuple):
    """The keys whose effect on the pending line is certain at a far end, each one byte.

    Attributes:
        erase: delete the last character.
        erase_word: delete the last word.
        kill: delete the line up to the cursor, which is all of it as long as the line is known.
        cancel: discard the line wherever the cursor is.
    """

    erase: frozenset[int] = frozenset(b"\x7f")
    erase_word: frozenset[int] = frozenset()
    kill: frozenset[int] = frozenset()
    cancel: frozenset[int] = frozenset()


#: Keys of bash, zsh and fish, whose editors agree on them.
SHELL_KEYS = LineKeys(frozenset(b"\x7f\x08"), frozenset(b"\x17"), frozenset(b"\x15"), frozenset(b"\x03"))


class Piece(NamedTuple):
    """Some bytes of the input.

    Attributes:
        data: the bytes, to be sent as they are.
        submits: whether they submit the pending line, or may do so; then they are one key, and the line is to be judged first.
        line: the line that is submitted; None if it is unknown.
        continued: the lines before it since the last prompt, joined, which may belong to the same command.
    """

    data: bytes
    submits: bool = False
    line: str | None = None
    continued: str = ""


@dataclass
class TypedLine:
    """The pending line of one far end. Fed with input cut anywhere, it submits the same lines."""

    keys: LineKeys = SHELL_KEYS
    _line: bytearray = field(default_factory=bytearray)
    _is_known: bool = True
    _continued: bytearray = field(default_factory=bytearray)
    #: Bytes of an escape sequence, or of an editor's key of several bytes, which may be incomplete.
    _sequence: bytearray = field(default_factory=bytearray)
    _is_pasting: bool = False
    _last: int = 0

    @property
    def line(self) -> str | None:
        """The pending line; None if it is unknown."""
        return self._text() if self._is_known and not self._sequence else None

    def feed(self, data: bytes) -> list[Piece]:
        """Take input, and return it in pieces, in order; their `data` joined is the input."""
        pieces: list[Piece] = []
        plain = bytearray()
        for byte in data:
            piece = self._take(byte)
            if piece is None:
                plain.append(byte)
                continue
            if plain:
                pieces.append(Piece(bytes(plain)))
                plain.clear()
            pieces.append(piece)
        if plain:
            pieces.append(Piece(bytes(plain)))
        return pieces

    def clear(self) -> None:
        """The line is empty, and belongs to no earlier one: a prompt was verified, or the terminal was replaced."""
        self._empty()
        self._continued.clear()
        self._is_pasting = False

    def submitted(self, line: str) -> None:
        """A line was submitted which the next ones may continue; for an unknown one, as it was read from the screen."""
        self._continued += line.encode("utf-8", "surrogateescape") + b"\n"
        del self._continued[: max(0, len(self._continued) - _MAX_CONTINUED)]

    def lose(self) -> None:
        """The line is unknown: something else than the input may have changed it."""
        self._is_known = False

    def _take(self, byte: int) -> Piece | None:
        """Take one byte; return its piece if it submits the line."""
        last, self._last = self._last, byte
        if byte == 0 and last == 0x0D:  # NUL follows a CR on Telnet (RFC 854)
            return None
        if byte in _ENTER:
            return self._enter(byte, is_quoted=last == _QUOTE)
        if self._sequence or byte == 0x1B:
            return self._take_sequence(byte)
        if self._is_pasting or (byte >= 0x20 and byte != 0x7F):
            self._insert(byte)
            return None
        return self._take_key(byte)

    def _take_sequence(self, byte: int) -> Piece | None:
        """Take a byte of an escape sequence; all but the marks of a paste make the line unknown.

        A key behind ESC may submit the line, as ESC a does in zsh.
        """
        if byte == 0x1B and self._sequence:
            self._is_known = False
            self._sequence.clear()
        self._sequence.append(byte)
        sequence = bytes(self._sequence)
        if sequence in _PASTE_MARKS:
            self._is_pasting = sequence == PASTE_BEGIN
            self._sequence.clear()
            return None
        if len(sequence) == 1 or any(mark.startswith(sequence) for mark in _PASTE_MARKS):
            return None
        if len(sequence) == 2 and byte not in b"[O":
            return self._unknown_key(byte)
        if len(sequence) > 2 and 0x40 <= byte <= 0x7E:
            self._is_known = False
            self._sequence.clear()
        return None

    def _take_key(self, byte: int) -> Piece | None:
        if byte in self.keys.cancel or (byte in self.keys.kill and self._is_known):
            self._empty()
        elif byte in self.keys.erase:
            self._erase()
        elif byte in self.keys.erase_word:
            self._erase_word()
        elif byte not in self.keys.kill:
            return self._unknown_key(byte)
        return None

    def _unknown_key(self, byte: int) -> Piece | None:
        """A key with an effect that depends on the far end: it may change the line, and some submit it."""
        piece = None
        if byte in _MAY_SUBMIT or self._sequence:
            piece = Piece(bytes((byte,)), True, self._text() if self._is_known else None, self._continued_text())
        self._is_known = False
        self._sequence.clear()
        return piece

    def _enter(self, byte: int, *, is_quoted: bool) -> Piece:
        """Submit the line. Within a paste it may only be a line of a longer text: it stays pending too."""
        self._is_known = self._is_known and not self._sequence
        self._sequence.clear()
        piece = Piece(bytes((byte,)), True, self.line, self._continued_text())
        if self._is_pasting:
            self._insert(0x0A)
            return piece
        if self._is_known and self._line:
            self.submitted(self._text())
        self._empty()
        self._is_known = not is_quoted
        return piece

    def _continued_text(self) -> str:
        return self._continued.decode("utf-8", "surrogateescape")

    def _text(self) -> str:
        return self._line.decode("utf-8", "surrogateescape")

    def _insert(self, byte: int) -> None:
        self._line.append(byte)
        if len(self._line) > MAX_LINE:
            self._is_known = False
            self._line.clear()

    def _empty(self) -> None:
        self._line.clear()
        self._sequence.clear()
        self._is_known = True

    def _erase(self) -> None:
        """Delete the last character. Editors differ for composed characters: then the line is unknown."""
        if self._line and self._line[-1] >= 0x80:
            self._is_known = False
        elif self._line:
            self._line.pop()

    def _erase_word(self) -> None:
        """Delete the last word if it has only letters and digits: editors differ in what else ends a word."""
        text = bytes(self._line)
        begin = text.rstrip(b" ")
        while begin[-1:].isalnum():
            begin = begin[:-1]
        if text.isascii() and (not begin or begin.endswith(b" ")):
            del self._line[len(begin) :]
        else:
            self._is_known = False

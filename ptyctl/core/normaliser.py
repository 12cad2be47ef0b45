"""Raw terminal bytes to spool text; the result does not depend on how the bytes are split.

1. Control sequences and C0 controls other than LF, HT, BS and CR are removed.
2. CR LF, CR CR LF and a CR alone become one LF.

All other bytes pass, including those that are not UTF-8. A string sequence (OSC, DCS ...) longer than a limit is given up: the
rest of it is text. The first CR after a begin mark is dropped: fish sends it with the title, before any output.
"""

from __future__ import annotations

import re

from .control_sequences import (
    CSI_BODY,
    ESC,
    ESCAPE_BODY,
    OSC_BODY,
    OSC_END,
    OSC_TERMINATOR,
    STRING_BODY,
    STRING_END,
    STRING_INTRODUCER,
    compile_bytes,
    strip_sequences,
)
from .marks import MarkReader, PlacedMark, format_sentinel

#: Limit of a string sequence: an unterminated one must not swallow a session.
STRING_LIMIT_BYTES = 1 << 20

_KEPT_C0 = b"\b\t\n\r\x1b"
_DROPPED_C0 = bytes(byte for byte in range(0x20) if byte not in _KEPT_C0)
_STRAY_CONTROLS = _DROPPED_C0 + ESC

_OSC_OR_MODE = compile_bytes(rf"\x1b\]({OSC_BODY}){OSC_TERMINATOR}|\x1b\[\?([0-9;]*)([hl])")
_PARTIAL = compile_bytes(
    rf"\x1b(?:\[{CSI_BODY}|\]{OSC_BODY}\x1b?|{STRING_INTRODUCER}{STRING_BODY}\x1b?|{ESCAPE_BODY})\Z"
)  # fmt: skip
_STRING_STARTS = (b"\x1b]", b"\x1bP", b"\x1bX", b"\x1b^", b"\x1b_")
_OSC_END = compile_bytes(OSC_END)
_STRING_END = compile_bytes(STRING_END)
_NEWLINE = re.compile(rb"\r?\r\n|\r")
_TRAILING_CR = re.compile(rb"\r{1,2}\Z")


class Normaliser:
    """Converts a stream of raw bytes to spool text.

    `raw` and `spool` are the offsets reached in both streams. `line_feeds` grows with every piece that contains a LF; a CR
    alone does not count, because it repaints a line. `modes` holds the DEC private modes that are set. `marks` collects the
    marks that `reader` accepts, until the caller takes them. `in_line` is whether the spool ends within a line.
    """

    def __init__(self, raw: int = 0, spool: int = 0, reader: MarkReader | None = None, *, in_line: bool = False) -> None:
        self.raw = raw
        self.spool = spool
        self.reader = reader
        self.line_feeds = 0
        self.modes: set[int] = set()
        self.marks: list[PlacedMark] = []
        self._partial = b""  # a partial sequence other than a string
        self._string = bytearray()  # a partial string sequence
        self._cr = b""  # one or two CR that a LF may follow
        self.in_line = in_line
        self._after_begin = False  # a begin mark was read, and no text since
        self._ts = 0

    def feed(self, data: bytes, ts: int = 0) -> bytes:
        """Return the text that `data` adds to the spool. A partial sequence, or a CR that a LF may follow, is held back.

        `ts` (epoch ms) is the time for marks that carry none.
        """
        if len(data) > STRING_LIMIT_BYTES:
            half = len(data) // 2
            return self.feed(data[:half], ts) + self.feed(data[half:], ts)
        self._ts = ts
        self.raw += len(data)
        if ESC not in data and not self._partial and not self._string:
            return self._plain(data)
        return self._with_sequences(data)

    @property
    def settled(self) -> bool:
        """Whether nothing is held back: a new normaliser with the same offsets, reader and `in_line` is then equivalent."""
        return not (self._partial or self._string or self._cr or self._after_begin)

    def skip_to(self, raw: int, spool: int) -> None:
        """Continue after bytes that were lost. Modes and marks are kept."""
        self.flush()
        self.raw, self.spool, self.in_line, self._after_begin = raw, spool, False, False

    def flush(self) -> bytes:
        """End the stream: a held CR ends a line, a partial sequence is dropped."""
        self._partial = b""
        self._string.clear()
        return self._flush_cr()

    def _with_sequences(self, data: bytes) -> bytes:
        data = self._partial + data
        self._partial = b""
        if self._string:
            data = self._continue_string(data)
        data = self._hold_partial(data)
        if b"\x1b]" not in data and b"\x1b[?" not in data:
            return self._plain(strip_sequences(data))
        raw = self.raw - len(self._partial) - len(self._string) - len(data)
        pieces, begin = [], 0
        for found in _OSC_OR_MODE.finditer(data):
            if begin < found.start():
                pieces.append(self._plain(strip_sequences(data[begin : found.start()])))
            begin = found.end()
            if found[1] is None:
                self._set_modes(found[2], found[3] == b"h")
            else:
                pieces.append(self._osc(found[1], raw + found.start(), raw + begin))
        if begin < len(data):
            pieces.append(self._plain(strip_sequences(data[begin:])))
        return b"".join(pieces)

    def _osc(self, payload: bytes, raw_begin: int, raw_end: int) -> bytes:
        """Return the text for an OSC: a separate line for a prompt mark, nothing otherwise."""
        mark = self.reader.read(payload) if self.reader is not None else None
        if mark is None:
            return b""
        before, line = self._flush_cr(), b""  # a CR before a mark does not combine with a LF after it
        if mark.kind == "prompt":
            if self.in_line:
                before, self.spool = before + b"\n", self.spool + 1
            line = format_sentinel(mark, self._ts)
            self.in_line = False
        self._after_begin = mark.kind == "begin"
        self.marks.append(PlacedMark(mark, raw_begin, raw_end, self.spool, self.spool + len(line)))
        self.spool += len(line)
        return before + line

    def _flush_cr(self) -> bytes:
        text = b"\n" * len(self._cr)
        self._cr = b""
        self.spool += len(text)
        self.in_line = self.in_line and not text
        return text

    def _hold_partial(self, data: bytes) -> bytes:
        """Hold back a partial sequence at the end of `data`; return the rest."""
        last = data.rfind(ESC)
        if last < 0:
            return data
        if last == len(data) - 1:  # may be the first half of ST
            last = max(data.rfind(ESC, 0, last), 0)
        found = _PARTIAL.search(data, last)
        if found is None:
            return data
        tail = found[0]
        if tail.startswith(_STRING_STARTS):
            self._partial = tail[-1:] if tail.endswith(ESC) else b""
            self._string += tail.removesuffix(ESC)
        else:
            self._partial = tail
        return data[: found.start()]

    def _continue_string(self, data: bytes) -> bytes:
        """Continue the held string. Return the bytes to process: string and rest, the rest of one given up, or nothing yet."""
        room = STRING_LIMIT_BYTES - len(self._string)
        end = _OSC_END if self._string.startswith(b"\x1b]") else _STRING_END
        found = end.search(data, 0, room)
        if found is None and len(data) < room:
            self._partial = data[-1:] if data.endswith(ESC) else b""
            self._string += data.removesuffix(ESC)
            return b""
        string = bytes(self._string)
        self._string.clear()
        return data[room:] if found is None else string + data

    def _set_modes(self, numbers: bytes, on: bool) -> None:
        modes = {int(number) for number in numbers.split(b";") if number and len(number) < 6}
        self.modes = self.modes | modes if on else self.modes - modes

    def _plain(self, data: bytes) -> bytes:
        """Drop C0 controls and convert line ends, in data without sequences."""
        text = self._cr + data.translate(None, _STRAY_CONTROLS)
        self.line_feeds += b"\n" in text
        if self._after_begin and text:
            self._after_begin, text = False, text.removeprefix(b"\r")
        if b"\r" in text:
            text = self._convert_newlines(text)
        else:
            self._cr = b""
        if text:
            self.spool += len(text)
            self.in_line = text[-1] != 10
        return text

    def _convert_newlines(self, text: bytes) -> bytes:
        found = _TRAILING_CR.search(text) if text.endswith(b"\r") else None
        self._cr = found[0] if found else b""
        if found:
            text = text[: found.start()]
        plain = text.replace(b"\r\n", b"\n")  # usually sufficient, and ten times as fast as the regular expression
        return _NEWLINE.sub(b"\n", text) if b"\r" in plain else plain

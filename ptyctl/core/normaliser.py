"""Converts raw terminal bytes to spool text. The result does not depend on how the bytes are split.

1. Control sequences and C0 controls other than LF, HT, BS and CR are removed.
2. CR LF, CR CR LF and a CR alone become one LF.
3. A run of 9 to 1024 blanks before a CR alone is reduced to 8: zsh and fish fill the line in this way before each prompt.

All other bytes pass, including those that are not UTF-8. The part of a sequence beyond a limit is text.
The first CR after a begin mark is dropped: fish sends it with the title, before any output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .control_sequences import (
    ESC,
    OSC_BODY,
    OSC_END,
    OSC_TERMINATOR,
    PARTIAL_SEQUENCE,
    STRING_END,
    compile_bytes,
    strip_sequences,
)
from .marks import Mark, MarkReader, PlacedMark, format_sentinel

#: Limit of a sequence: an unterminated string must not swallow a session.
SEQUENCE_LIMIT_BYTES = 1 << 20

#: Number of blanks of a run that pass at once, so that a shown prompt is complete. The others are held until the run ends.
PASSED_BLANKS = 8
#: Runs above this length are not reduced: no terminal is wider.
BLANKS_LIMIT = 1024

_KEPT_C0 = b"\b\t\n\r\x1b"
_DROPPED_C0 = bytes(byte for byte in range(0x20) if byte not in _KEPT_C0)
_STRAY_CONTROLS = _DROPPED_C0 + ESC
#: Characters that are changed or removed.
_CHANGED = _STRAY_CONTROLS + b"\r"

_OSC_OR_MODE = compile_bytes(rf"\x1b\]({OSC_BODY}){OSC_TERMINATOR}|\x1b\[\?([0-9;]*)([hl])")
_PARTIAL = compile_bytes(PARTIAL_SEQUENCE)
#: The first byte that does not belong to the body of a partial sequence, by introducer. Others are escape sequences.
_ENDS = {
    ord("["): compile_bytes(r"[^\x20-\x3f]"),
    ord("]"): compile_bytes(OSC_END),
    **dict.fromkeys(b"PX^_", compile_bytes(STRING_END)),
}
_ESCAPE_END = compile_bytes(r"[^\x20-\x2f]")
_NEWLINE = re.compile(rb"\r?\r\n|\r")
_LONG_RUN = b" " * (PASSED_BLANKS + 1)
_PADDING = re.compile(_LONG_RUN + rb" *+(\r(?!\r?\n))?")


class Normaliser:
    """Converts a stream of raw bytes to spool text.

    `raw` and `spool` are the offsets reached in both streams. `line_feeds` grows with every piece that contains a LF; a CR
    alone does not count, because it repaints a line. `modes` holds the DEC private modes that are set. `marks` collects the
    marks that `reader` accepts, until the caller takes them. `in_line` is whether the spool ends within a line. `blanks` is
    the length of the run of blanks at the end, including those that are held back.
    """

    def __init__(
        self,
        raw: int = 0,
        spool: int = 0,
        reader: MarkReader | None = None,
        *,
        in_line: bool = False,
        blanks: int = 0,
        after_begin: bool = False,
        modes: Iterable[int] = (),
    ) -> None:
        self.raw = raw
        self.spool = spool
        self.reader = reader
        self.line_feeds = 0
        self.modes = set(modes)
        self.marks: list[PlacedMark] = []
        self._partial = b""  # an ESC at the end
        self._sequence = bytearray()  # a partial sequence
        self._cr = b""  # one or two CR that a LF may follow
        self.in_line = in_line
        self.blanks = blanks
        self._after_begin = after_begin  # a begin mark was read, and no text since
        self._ts = 0

    def feed(self, data: bytes, ts: int = 0) -> bytes:
        """Return the text that `data` adds to the spool.

        A partial sequence, a CR that a LF may follow, and blanks that a CR may follow are held back.

        `ts` (epoch ms) is the time for marks that carry none.
        """
        if len(data) > SEQUENCE_LIMIT_BYTES:
            half = len(data) // 2
            return self.feed(data[:half], ts) + self.feed(data[half:], ts)
        self._ts = ts
        self.raw += len(data)
        if ESC not in data and not self._partial and not self._sequence:
            return self._plain(data)
        return self._with_sequences(data)

    def take_marks(self) -> list[PlacedMark]:
        """Remove and return the marks that were read."""
        marks, self.marks = self.marks, []
        return marks

    @property
    def settled(self) -> bool:
        """Whether only blanks are held back: a new normaliser with the same offsets, reader and flags is then equivalent."""
        return not (self._partial or self._sequence or self._cr or self._after_begin)

    @property
    def held(self) -> int:
        """The size of the text that `flush` would return."""
        return len(self._cr) or (self.blanks and self.blanks - _passed(self.blanks))

    def skip_to(self, raw: int, spool: int) -> None:
        """Set the offsets after lost bytes. Modes and marks are kept."""
        self.flush()
        self.raw, self.spool, self.in_line, self._after_begin = raw, spool, False, False

    def flush(self) -> bytes:
        """End the stream: a held CR ends a line, held blanks are text, a partial sequence is dropped."""
        self._partial = b""
        self._sequence.clear()
        return self._flush_held()

    def _with_sequences(self, data: bytes) -> bytes:
        data = self._partial + data
        self._partial = b""
        if self._sequence:
            data = self._continue_sequence(data)
        data = self._hold_partial(data)
        if b"\x1b]" not in data and b"\x1b[?" not in data:
            return self._plain(strip_sequences(data))
        raw = self.raw - len(self._partial) - len(self._sequence) - len(data)
        pieces, begin = [], 0
        for found in _OSC_OR_MODE.finditer(data):
            if found[1] is None:
                self._set_modes(found[2], found[3] == b"h")
            elif self.reader is not None and (mark := self.reader.read(found[1])) is not None:
                at, end = found.span()
                if begin < at:
                    pieces.append(self._plain(strip_sequences(data[begin:at])))
                pieces.append(self._mark(mark, raw + at, raw + end))
                begin = end
        pieces.append(self._plain(strip_sequences(data[begin:])))
        return b"".join(pieces)

    def _mark(self, mark: Mark, raw_begin: int, raw_end: int) -> bytes:
        """Return the text for a mark: a separate line for a prompt mark, nothing otherwise."""
        before, line = self._flush_held(), b""  # a CR before a mark does not combine with a LF after it
        if mark.kind == "prompt":
            if self.in_line:
                before, self.spool = before + b"\n", self.spool + 1
            line = format_sentinel(mark, self._ts)
            self.in_line = False
        self._after_begin = mark.kind == "begin"
        self.marks.append(PlacedMark(mark, raw_begin, raw_end, self.spool, self.spool + len(line)))
        self.spool += len(line)
        return before + line

    def _flush_held(self) -> bytes:
        if not (self._cr or self.blanks):
            return b""
        text = b"\n" * len(self._cr) or b" " * (self.blanks - _passed(self.blanks))
        self.in_line = self.in_line and not self._cr
        self._cr, self.blanks = b"", 0
        self.spool += len(text)
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
        self._partial = tail[-1:] if tail.endswith(ESC) else b""
        self._sequence += tail.removesuffix(ESC)
        return data[: found.start()]

    def _continue_sequence(self, data: bytes) -> bytes:
        """Continue the held sequence. Return the bytes to process: sequence and further bytes, or the rest beyond the limit."""
        room = SEQUENCE_LIMIT_BYTES - len(self._sequence)
        end = _ENDS.get(self._sequence[1], _ESCAPE_END)
        found = end.search(data, 0, room)
        if found is None and len(data) < room:
            self._partial = data[-1:] if data.endswith(ESC) else b""
            self._sequence += data.removesuffix(ESC)
            return b""
        sequence = bytes(self._sequence)
        self._sequence.clear()
        return data[room:] if found is None else sequence + data

    def _set_modes(self, numbers: bytes, on: bool) -> None:
        modes = {int(number) for number in numbers.split(b";") if number and len(number) < 6}
        self.modes = self.modes | modes if on else self.modes - modes

    def _plain(self, data: bytes) -> bytes:
        """Drop C0 controls, convert line ends and drop padding, in data without sequences."""
        text = data.translate(None, _STRAY_CONTROLS)
        if not text:
            return b""
        self.line_feeds += b"\n" in text
        if self._after_begin:
            self._after_begin, text = False, text.removeprefix(b"\r")
        passed = _passed(self.blanks) if self.blanks else 0
        if self.blanks or self._cr:
            text = b" " * self.blanks + self._cr + text
        if text.endswith((b" ", b"\r")):
            text = self._hold(text)
        else:
            self._cr, self.blanks = b"", 0
        if b"\r" in text:
            text = _convert_newlines(text)
        text = text[passed:]
        if text:
            self.spool += len(text)
            self.in_line = text[-1] != 10
        return text

    def _hold(self, text: bytes) -> bytes:
        """Hold back the CRs at the end, at most two, and blanks before them; return the rest."""
        end = len(text)
        while end > max(len(text) - 2, 0) and text[end - 1] == 13:
            end -= 1
        self._cr = text[end:]
        self.blanks = min(end - len(text[:end].rstrip(b" ")), BLANKS_LIMIT + 1)
        return text[: end - self.blanks + _passed(self.blanks)]


def spool_size(raw: bytes, *, after_begin: bool = False) -> int:
    """Return the size of the text of raw bytes in the spool if they follow a line feed or, with `after_begin`, a begin mark."""
    if passes_unchanged(raw):
        return len(raw)
    normaliser = Normaliser(after_begin=after_begin)
    return len(normaliser.feed(raw)) + normaliser.held


def passes_unchanged(raw: bytes) -> bool:
    """Return whether raw bytes are equal to their spool text: no sequences, and no controls that are removed or converted."""
    return len(raw.translate(None, _CHANGED)) == len(raw)


def _passed(blanks: int) -> int:
    """Return how many blanks of a run at the end have passed."""
    return blanks if blanks > BLANKS_LIMIT else min(blanks, PASSED_BLANKS)


def _convert_newlines(text: bytes) -> bytes:
    plain = text.replace(b"\r\n", b"\n")  # usually sufficient, and ten times as fast as the regular expressions
    if b"\r" not in plain:
        return plain
    if _LONG_RUN in text:
        text = _PADDING.sub(_without_padding, text)
    return _NEWLINE.sub(b"\n", text)


def _without_padding(found: re.Match[bytes]) -> bytes:
    padding = found[1] and len(found[0]) <= BLANKS_LIMIT + 1
    return b" " * PASSED_BLANKS + b"\r" if padding else found[0]

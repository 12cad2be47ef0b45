"""Raw terminal bytes to spool text (design, section 3), the same text however the bytes were cut.

Two rules, in this order: escape and control sequences and C0 controls other than LF, HT, BS and CR are dropped; then each of
CR LF, CR CR LF and a CR alone becomes one LF. Everything else passes, also bytes that are not UTF-8.

Sequences follow ECMA-48 5.4 and 5.6 as terminals read them: a byte that cannot continue a CSI or an escape sequence ends it
and is read as text, so that a torn sequence costs nothing behind it; CAN and SUB cancel a string, and so does its excess
of a bound.

A CR that stands first behind a begin mark leaves nothing: no line was begun. (fish sends it with the title, behind the mark.)
"""

from __future__ import annotations

import re

from .control_sequences import ESC
from .marks import MarkReader, PlacedMark, format_sentinel

#: An OSC, DCS, APC, PM or SOS longer than this is given up: an unterminated one must not swallow a session.
STRING_LIMIT_BYTES = 1 << 20

_KEPT_C0 = b"\b\t\n\r\x1b"
_DROPPED_C0 = bytes(byte for byte in range(0x20) if byte not in _KEPT_C0)
_STRAY_CONTROLS = _DROPPED_C0 + ESC

#: Whole sequences, and torn ones: what could still become whole has been held back before this is used.
SEQUENCE = re.compile(
    rb"\x1b(?:"
    rb"\[[\x20-\x3f]*[\x40-\x7e]?"  # CSI
    rb"|\][^\x07\x18\x1a\x1b]*(?:[\x07\x18\x1a]|\x1b\\)?"  # OSC: BEL ends it too (xterm)
    rb"|[PX^_][^\x18\x1a\x1b]*(?:[\x18\x1a]|\x1b\\)?"  # DCS, SOS, PM, APC
    rb"|[\x20-\x2f]*[\x30-\x7e]?"  # nF, Fp, Fe, Fs
    rb")",
    re.DOTALL,
)
_OSC_OR_MODE = re.compile(rb"\x1b\]([^\x07\x18\x1a\x1b]*)(?:\x07|\x1b\\)|\x1b\[\?([0-9;]*)([hl])", re.DOTALL)
_OPEN = re.compile(rb"\x1b(?:\[[\x20-\x3f]*|\][^\x07\x18\x1a\x1b]*\x1b?|[PX^_][^\x18\x1a\x1b]*\x1b?|[\x20-\x2f]*)\Z", re.DOTALL)
_STRING_BEGINS = (b"\x1b]", b"\x1bP", b"\x1bX", b"\x1b^", b"\x1b_")
_OSC_END = re.compile(rb"[\x07\x18\x1a]|\x1b(?:\\|(?=[^\\]))", re.DOTALL)
_STRING_END = re.compile(rb"[\x18\x1a]|\x1b(?:\\|(?=[^\\]))", re.DOTALL)
_NEWLINE = re.compile(rb"\r?\r\n|\r")
_OPEN_CR = re.compile(rb"\r{1,2}\Z")


class Normaliser:
    """Feeds on raw bytes, gives spool text. `raw` and `spool` count what was taken in and given out.

    `line_feeds` grows whenever a LF was received: a CR alone repaints a line, only a LF leaves it. `modes` holds the DEC
    private modes that the far end has set; `marks` gathers the marks of `reader` until they are taken; `in_line` says whether
    the spool ends within a line.
    """

    def __init__(self, raw: int = 0, spool: int = 0, reader: MarkReader | None = None, *, in_line: bool = False) -> None:
        self.raw = raw
        self.spool = spool
        self.reader = reader
        self.line_feeds = 0
        self.modes: set[int] = set()
        self.marks: list[PlacedMark] = []
        self._held = b""  # the start of a short sequence whose end has not come
        self._string = bytearray()  # the start of a string (OSC, DCS ...) whose end has not come
        self._cr = b""  # one or two CR of which it is open whether a LF follows
        self.in_line = in_line
        self._begun = False  # a begin mark was read, and no text since
        self._ts = 0

    def feed(self, data: bytes, ts: int = 0) -> bytes:
        """The text that `data` adds to the spool. A sequence or a CR whose meaning is still open is held back.

        `ts` (epoch ms) is the time of marks that bring none.
        """
        if len(data) > STRING_LIMIT_BYTES:
            half = len(data) // 2
            return self.feed(data[:half], ts) + self.feed(data[half:], ts)
        self._ts = ts
        self.raw += len(data)
        if ESC not in data and not self._held and not self._string:
            return self._plain(data)
        return self._escaped(data)

    @property
    def settled(self) -> bool:
        """Whether nothing is held back: a new one with the same counts, reader and `in_line` goes on alike."""
        return not (self._held or self._string or self._cr or self._begun)

    def skip_to(self, raw: int, spool: int) -> None:
        """What came up to there is not to be had: it begins anew behind it, in the modes and with the marks of before."""
        self.flush()
        self.raw, self.spool, self.in_line, self._begun = raw, spool, False, False

    def flush(self) -> bytes:
        """Settles what is open as the stream ends here: a held CR is a line's end, a torn sequence is dropped."""
        self._held = b""
        self._string.clear()
        return self._settle_cr()

    def _escaped(self, data: bytes) -> bytes:
        data = self._held + data
        self._held = b""
        if self._string:
            data = self._continue_string(data)
        data = self._hold_open(data)
        if b"\x1b]" not in data and b"\x1b[?" not in data:
            return self._plain(SEQUENCE.sub(b"", data))
        raw = self.raw - len(self._held) - len(self._string) - len(data)
        pieces, begin = [], 0
        for found in _OSC_OR_MODE.finditer(data):
            if begin < found.start():
                pieces.append(self._plain(SEQUENCE.sub(b"", data[begin : found.start()])))
            begin = found.end()
            if found[1] is None:
                self._set_modes(found[2], found[3] == b"h")
            else:
                pieces.append(self._mark(found[1], raw + found.start(), raw + begin))
        if begin < len(data):
            pieces.append(self._plain(SEQUENCE.sub(b"", data[begin:])))
        return b"".join(pieces)

    def _mark(self, payload: bytes, raw_begin: int, raw_end: int) -> bytes:
        """The text that an OSC leaves: a line of its own where it is a prompt mark, nothing else."""
        mark = self.reader.read(payload) if self.reader is not None else None
        if mark is None:
            return b""
        before, line = self._settle_cr(), b""  # a CR before a mark is over: what stands behind the mark is another's
        if mark.kind == "prompt":
            if self.in_line:
                before, self.spool = before + b"\n", self.spool + 1
            line = format_sentinel(mark, self._ts)
            self.in_line = False
        self._begun = mark.kind == "begin"
        self.marks.append(PlacedMark(mark, raw_begin, raw_end, self.spool, self.spool + len(line)))
        self.spool += len(line)
        return before + line

    def _settle_cr(self) -> bytes:
        text = b"\n" * len(self._cr)
        self._cr = b""
        self.spool += len(text)
        self.in_line = self.in_line and not text
        return text

    def _hold_open(self, data: bytes) -> bytes:
        """`data` without the sequence at its end that is not whole yet."""
        last = data.rfind(ESC)
        if last < 0:
            return data
        if last == len(data) - 1:  # it may be the first half of a string's terminator
            last = max(data.rfind(ESC, 0, last), 0)
        found = _OPEN.search(data, last)
        if found is None:
            return data
        tail = found[0]
        if tail.startswith(_STRING_BEGINS):
            self._held = tail[-1:] if tail.endswith(ESC) else b""
            self._string += tail.removesuffix(ESC)
        else:
            self._held = tail
        return data[: found.start()]

    def _continue_string(self, data: bytes) -> bytes:
        """What of `data` is to be read on as usual: the string with its end, what follows a given-up one, or nothing yet."""
        room = STRING_LIMIT_BYTES - len(self._string)
        ends = _OSC_END if self._string.startswith(b"\x1b]") else _STRING_END
        found = ends.search(data, 0, room)
        if found is None and len(data) < room:
            self._held = data[-1:] if data.endswith(ESC) else b""
            self._string += data.removesuffix(ESC)
            return b""
        whole = bytes(self._string)
        self._string.clear()
        return data[room:] if found is None else whole + data

    def _set_modes(self, numbers: bytes, on: bool) -> None:
        modes = {int(number) for number in numbers.split(b";") if number and len(number) < 6}
        self.modes = self.modes | modes if on else self.modes - modes

    def _plain(self, data: bytes) -> bytes:
        """Drops C0 controls and settles line ends, in data without open sequences."""
        text = self._cr + data.translate(None, _STRAY_CONTROLS)
        self.line_feeds += b"\n" in text
        if self._begun and text:
            self._begun, text = False, text.removeprefix(b"\r")
        if b"\r" in text:
            text = self._newlines(text)
        else:
            self._cr = b""
        if text:
            self.spool += len(text)
            self.in_line = text[-1] != 10
        return text

    def _newlines(self, text: bytes) -> bytes:
        found = _OPEN_CR.search(text) if text.endswith(b"\r") else None
        self._cr = found[0] if found else b""
        if found:
            text = text[: found.start()]
        plain = text.replace(b"\r\n", b"\n")  # nearly always all there is to do, and ten times as fast as the rule itself
        return _NEWLINE.sub(b"\n", text) if b"\r" in plain else plain

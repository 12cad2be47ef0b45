"""Ranges of the output that viewers do not see as received: lines that ptyctl typed, which are shown as the caller gave them.

The bytes themselves, `output.raw`, do not change. Views (the screen, watchers, recordings and exports) read through the ranges.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from .control_sequences import PARTIAL_SEQUENCE, SEQUENCE, compile_bytes, strip_sequences
from .screen.query_responses import QUERY

#: Sequences that change the terminal's modes or keypad, and so the meaning of keys and of what follows.
_MODES = re.compile(rb"\x1b(?:\[\?([0-9;]{1,32})[hl]|[=>])")
#: Erases the row of a prompt that is shown again.
ERASE_ROW = b"\r\x1b[K"
#: Control characters that a line editor shows as `^X`. A line feed begins a row.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
#: The parts of output: line feeds, text, sequences that are incomplete at the end, other sequences and controls.
_PART = compile_bytes(
    rf"(?P<line>\n)|(?P<text>[^\x00-\x1f\x7f]++)|(?P<partial>{PARTIAL_SEQUENCE})|(?P<sequence>{SEQUENCE})|[\x00-\x1f\x7f]"
)
#: Line editors move the cursor to draw a part of a line again.
_MOTION = re.compile(rb"\x08|\x1b(?:\[[\d;]*[@-HJ-MPSTX`a-f]|[78DEM])")
#: Characters at the end of a row in which a line editor shows a part of the line (ksh, mksh).
_CUT = b"<>*"
#: Continuation prompts before a row of several.
_CONTINUATION = re.compile(rb"(?:[a-z]*>)+")
#: Fewest characters of a row in which a terminal wraps a longer line.
_WRAPPED = 10
#: Points to the place of an error in a typed line.
_POINTERS = b"^~"


class HiddenRange(NamedTuple):
    """Received bytes from one raw offset to another, and the bytes that are shown for them.

    The byte at offset n stands for the byte n of the shown ones, and the last byte for all others. A reader may therefore read
    any part of the range.
    """

    begin: int
    end: int
    shown: bytes = b""

    def part(self, begin: int, end: int) -> bytes:
        """Return what is shown for the bytes between two offsets."""
        first = max(begin - self.begin, 0)
        return self.shown[first:] if end >= self.end else self.shown[first : max(end - self.begin, 0)]


class HiddenRanges:
    """The hidden ranges of one output, in order."""

    def __init__(self, ranges: Iterable[HiddenRange] = ()) -> None:
        self._ranges: list[HiddenRange] = []
        for each in sorted(ranges):
            self.add(each)

    def add(self, new: HiddenRange) -> None:
        """Add a range after all others. One that is empty or overlaps an earlier one is not added."""
        if new.begin < new.end and (not self._ranges or self._ranges[-1].end <= new.begin):
            self._ranges.append(new)

    def show(self, begin: int, data: bytes) -> bytes:
        """Return what is shown for received bytes that begin at a raw offset."""
        return data if not self._ranges else b"".join(piece for _, piece in self.pieces(begin, data))

    def pieces(self, begin: int, data: bytes) -> list[tuple[int, bytes]]:
        """Return what is shown for received bytes, in pieces with the raw offset of each one's first byte."""
        ranges, end, at = self._ranges, begin + len(data), begin
        first = bisect_right(ranges, begin, key=attrgetter("end"))
        last = bisect_left(ranges, end, key=attrgetter("begin"))
        pieces = []
        for each in ranges[first:last]:
            if at < each.begin:
                pieces.append((at, data[at - begin : each.begin - begin]))
            pieces.append((max(at, each.begin), each.part(at, end)))
            at = min(each.end, end)
        if at < end:
            pieces.append((at, data[at - begin :]))
        return pieces


class TypedLines:
    """Tells the echo of lines that ptyctl types from all other output, as it arrives.

    A row belongs to the echo if each text in it is a part of a typed line or of the prompt, and a row without motions of the
    cursor is a whole one. Blanks do not count: editors wrap and pad. A query to the terminal always is other output.

    Attributes:
        shown: what viewers see in place of the echo; empty once they do.
        has_other: whether there was other output, apart from queries.
    """

    def __init__(self, prompt: str) -> None:
        self.shown = b""
        self.has_other = False
        self._prompt = _compact(prompt.encode())
        self._rows = {b"", self._prompt}
        self._texts = self._prompt
        self._answers: list[bytes] = []
        self._stop: bytes | None = None
        self._rest = b""  # text or a sequence that may continue
        self._row_begin = -1
        self._row, self._is_whole, self._is_other, self._is_unknown = b"", True, False, False
        self._is_answer = False  # the row has a text of the answers
        self._returned = False  # the cursor is at the start of the row again
        self._wrapped = b""  # the start of a typed line, in rows before this one

    def expect(self, typed: str, *, answers: Iterable[str] = (), stop: bytes | None = None) -> None:
        """Expect the echo of typed text.

        Args:
            answers: rows with one of these texts, which the lines print, belong to the echo. A row is judged when it ends.
            stop: text that ends the echo.
        """
        self._stop = stop
        self._answers += [_compact(answer.encode()) for answer in answers]
        for text in (_CONTROLS.sub("", strip_sequences(typed.encode("utf-8", "replace")).decode()), _with_carets(typed)):
            rows = [_compact(row.encode("utf-8", "replace")) for row in text.split("\n")]
            self._rows.update(rows, (self._prompt + row for row in rows))
            self._texts = b"\n".join((self._texts, *(self._prompt + row for row in rows)))

    def feed(self, raw: int, data: bytes) -> list[tuple[int, int]]:
        """Return the ranges of other output, up to the end of this output that begins at a raw offset.

        A range may begin in the previous output, with the row that this output shows to be no echo.
        """
        base, pending, other = raw - len(self._rest), self._rest + data, list[tuple[int, int]]()
        self._rest = b""
        if self._row_begin < 0:
            self._row_begin = base
        if self._stop is not None and (stop := pending.find(self._stop)) >= 0:
            pending = pending[:stop]
        for part in _PART.finditer(pending):
            begin, end = base + part.start(), base + part.end()
            if part.lastgroup == "line":
                if self._is_other or not self._is_echo():
                    other.append((begin if self._is_other else self._row_begin, end))
                    self.has_other = True
                self._begin_row(end)
            elif self._is_other:
                other.append((begin, end))
            elif not self._add(part, begin == self._row_begin, part.end() == len(pending)):
                other.append((self._row_begin, end))
                self._is_other = self.has_other = True
            elif part.lastgroup == "sequence" and QUERY.fullmatch(part[0]):
                other.append((begin, end))
                self._begin_row(end, is_whole=False)
        return other

    def _begin_row(self, raw: int, *, is_whole: bool = True) -> None:
        self._row_begin, self._is_whole, self._returned = raw, is_whole, False
        self._is_answer = False
        self._row, self._is_other, self._is_unknown = b"", False, False

    def _add(self, part: re.Match[bytes], is_first: bool, is_last: bool) -> bool:
        """Add a part of the current row; return whether the row may be an echo."""
        if part.lastgroup == "partial" or (part.lastgroup == "text" and is_last):
            self._rest = part[0]
        if part.lastgroup != "text":
            self._returned = self._returned or (part[0] == b"\r" and (is_first or self._row != b""))
            self._is_whole = self._is_whole and _MOTION.match(part[0]) is None
            return True
        text = _compact(part[0])
        while self._prompt and text.startswith(2 * self._prompt):  # a prompt that was drawn again
            text = text[len(self._prompt) :]
        known = self._texts
        is_known = text in known or text.rstrip(_CUT) in known or _without_continuation(text) in known
        if not is_last:
            self._is_answer = self._is_answer or any(answer in text for answer in self._answers)
            self._is_whole = self._is_whole and not self._returned
            self._row += text
            self._is_unknown = self._is_unknown or not is_known
        if not is_known and not self._answers:
            self._rest = b""
            return False
        return True

    def _is_echo(self) -> bool:
        """Return whether the row, which has ended, is an echo or an answer."""
        if self._answers and (self._is_answer or not self._row.strip(_POINTERS)):
            return True
        if self._is_unknown:
            return False
        if not self._is_whole or self._answers:
            return True
        row, self._wrapped = self._wrapped + self._row, b""
        if {self._row, row, _without_continuation(self._row)} & self._rows:
            return True
        if len(self._row) < _WRAPPED or not any(each.startswith(row) for each in self._rows):
            return False
        self._wrapped = row
        return True


def _without_continuation(row: bytes) -> bytes:
    found = _CONTINUATION.match(row)
    return row if found is None else row[found.end() :]


def _compact(text: bytes) -> bytes:
    return text.translate(None, b" ")


def modes_of(data: bytes) -> bytes:
    """Return the sequences in hidden bytes that set the terminal's modes: the last one for each mode."""
    last: dict[bytes, bytes] = {}
    for found in _MODES.finditer(data):
        key = found[1] or b"keypad"
        last.pop(key, None)
        last[key] = found[0]
    return b"".join(last.values())


def shown_command(command: str) -> bytes:
    """Return what a terminal shows for a command that is typed at a prompt, with its line end."""
    return _with_carets(command.replace("\r\n", "\n")).replace("\n", "\r\n").encode("utf-8", "replace") + b"\r\n"


def _with_carets(text: str) -> str:
    return _CONTROLS.sub(lambda found: f"^{chr(ord(found[0]) ^ 0x40)}", text)


def row_fields(hidden: HiddenRange) -> dict[str, Any]:
    """Return the fields of a range's row in timeline.jsonl."""
    return {"from": hidden.begin, "to": hidden.end, "shown": hidden.shown.decode("utf-8", "replace")}


def read_hidden(row: dict[str, Any]) -> HiddenRange | None:
    """Return the range of a row; None if it is invalid."""
    begin, end, shown = row.get("from"), row.get("to"), row.get("shown")
    if type(begin) is not int or type(end) is not int or not isinstance(shown, str) or not 0 <= begin < end:
        return None
    return HiddenRange(begin, end, shown.encode("utf-8", "replace"))

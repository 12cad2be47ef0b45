"""Ranges of the output that viewers do not see as received: lines that ptyctl typed, which are shown as the caller gave them.

The bytes themselves, `output.raw`, do not change. Views (the screen, watchers, recordings and exports) read through the ranges.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

#: Sequences that change the terminal's modes or keypad, and so the meaning of keys and of what follows.
_MODES = re.compile(rb"\x1b(?:\[\?([0-9;]{1,32})[hl]|[=>])")
#: Erases the row of a prompt that is shown again.
ERASE_ROW = b"\r\x1b[K"
#: Control characters that a line editor shows as `^X`. A line feed begins a row.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


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
    text = _CONTROLS.sub(lambda found: f"^{chr(ord(found[0]) ^ 0x40)}", command.replace("\r\n", "\n"))
    return text.replace("\n", "\r\n").encode("utf-8", "replace") + b"\r\n"


def row_fields(hidden: HiddenRange) -> dict[str, Any]:
    """Return the fields of a range's row in timeline.jsonl."""
    return {"from": hidden.begin, "to": hidden.end, "shown": hidden.shown.decode("utf-8", "replace")}


def read_hidden(row: dict[str, Any]) -> HiddenRange | None:
    """Return the range of a row; None if it is invalid."""
    begin, end, shown = row.get("from"), row.get("to"), row.get("shown")
    if type(begin) is not int or type(end) is not int or not isinstance(shown, str) or not 0 <= begin < end:
        return None
    return HiddenRange(begin, end, shown.encode("utf-8", "replace"))

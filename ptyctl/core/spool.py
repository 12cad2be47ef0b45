"""A bounded window over the end of the spool (design, section 3)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

#: How far the memory may lag behind the bound before it is cut: cutting at each append would copy too often.
_SLACK_BYTES = 256 * 1024
#: No character of UTF-8 is longer (RFC 3629).
UTF8_MAX_BYTES = 4


class SpoolWindow:
    """The last `limit` bytes of the spool. `start` and `end` are offsets into it, exact whatever memory is held."""

    def __init__(self, limit: int, end: int = 0) -> None:
        self.limit = limit
        self.end = end
        self._base = end
        self._bytes = bytearray()

    @property
    def start(self) -> int:
        return max(self._base, self.end - self.limit)

    def append(self, text: bytes) -> None:
        if len(text) > self.limit:
            self._base = self.end + len(text) - self.limit
            self._bytes = bytearray(text[-self.limit :])
        else:
            self._bytes += text
        self.end += len(text)
        surplus = len(self._bytes) - self.limit
        if surplus > _SLACK_BYTES:
            del self._bytes[:surplus]
            self._base += surplus

    def read(self, begin: int, end: int) -> bytes:
        """The bytes between two offsets, as far as the window holds them."""
        with self.view(begin, end) as seen:
            return bytes(seen)

    def view(self, begin: int, end: int) -> memoryview:
        """As `read`, without a copy: to be released before anything is appended."""
        begin = max(begin, self.start)
        return memoryview(self._bytes)[begin - self._base : max(begin, end) - self._base]

    def character_start(self, offset: int) -> int:
        """The first place at or behind `offset` where a character begins, so that a cut text begins readable."""
        begin = max(offset, self.start)
        for byte in self.read(begin, begin + UTF8_MAX_BYTES - 1):
            if byte & 0xC0 != 0x80:
                break
            begin += 1
        return begin

    def release(self) -> None:
        """Frees the memory; `start` becomes the end. What was kept on disk is still there."""
        self._base = self.end
        self._bytes = bytearray()


def whole_characters(text: bytes) -> int:
    """How many bytes of `text` are left when an incomplete character at its end is not counted."""
    for back in range(1, min(UTF8_MAX_BYTES, len(text) + 1)):
        byte = text[-back]
        if byte & 0xC0 != 0x80:
            needed = 1 + (byte >= 0xC2) + (byte >= 0xE0) + (byte >= 0xF0) if byte < 0xF5 else 1
            return len(text) - back if needed > back else len(text)
    return len(text)


#: The ranges (begin, end) that share a byte with a range of offsets: ascending, apart from each other, whole.
Hidden = Callable[[int, int], Sequence[tuple[int, int]]]

#: A text, or a view of it: what is left of a view is one too where nothing is hidden.
Text = TypeVar("Text", bytes, memoryview)


def nothing_hidden(begin: int, end: int) -> Sequence[tuple[int, int]]:
    return ()


class HiddenRanges(Generic[Text]):
    """`text` is what is left of a text that stands at offset `begin`, without the ranges."""

    def __init__(self, whole: Text, begin: int, ranges: Sequence[tuple[int, int]]) -> None:
        end = begin + len(whole)
        self._begins, self._places = [begin], [0]  # of each piece that is left: its offset, and where it stands in `text`
        pieces, at = [], begin
        for hidden_begin, hidden_end in ranges:
            piece = whole[at - begin : max(hidden_begin, begin) - begin]
            pieces.append(piece)
            at = min(hidden_end, end)
            self._begins.append(at)
            self._places.append(self._places[-1] + len(piece))
        pieces.append(whole[at - begin :])
        self.text: Text | bytes = b"".join(pieces) if ranges else whole

    def position(self, offset: int) -> int:
        """Where an offset stands in `text`; one that is left out stands where the next byte does."""
        piece = bisect_right(self._begins, offset) - 1
        last = self._places[piece + 1] if piece + 1 < len(self._places) else len(self.text)
        return min(self._places[piece] + offset - self._begins[piece], last)

    def offset(self, place: int) -> int:
        """The offset of the byte at a place in `text`, or at its end the offset behind all."""
        piece = bisect_right(self._places, place) - 1
        return self._begins[piece] + place - self._places[piece]

    def end_offset(self, place: int) -> int:
        """The offset behind the byte before a place: what is left out in between is not passed."""
        piece = max(bisect_left(self._places, place) - 1, 0)
        return self._begins[piece] + place - self._places[piece]

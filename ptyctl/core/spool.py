"""The spool in memory: a bounded window over its end, the ranges of prompt lines, and text without hidden ranges."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

#: Excess over the limit at which the memory is cut: cutting at each append would copy too often.
_SLACK_BYTES = 256 * 1024
#: Length of the longest UTF-8 character (RFC 3629).
UTF8_MAX_BYTES = 4
#: Text up to this size is searched line by line.
_SCANNED_BYTES = 4096
#: Size of one packed prompt line: begin and end as unsigned 64-bit numbers in native byte order.
PACKED_BYTES = 16


class SpoolWindow:
    """The last `limit` bytes of the spool. `start` and `end` are spool offsets."""

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
        """Return the bytes between two offsets that are in the window."""
        return bytes(self.view(begin, end))

    def view(self, begin: int, end: int) -> memoryview:
        """Return the bytes of `read` as a view, without a copy. Release the view before the next `append`."""
        begin = max(begin, self.start)
        return memoryview(self._bytes)[begin - self._base : max(begin, end) - self._base]

    def character_start(self, offset: int) -> int:
        """Return the first offset at or after `offset` at which a UTF-8 character begins."""
        begin = max(offset, self.start)
        return begin + leading_continuation_bytes(self.read(begin, begin + UTF8_MAX_BYTES - 1))

    def release(self) -> None:
        """Free the memory; `start` becomes `end`."""
        self._base = self.end
        self._bytes = bytearray()


def last_lines(text: bytes, count: int) -> int:
    """Return the offset of the last `count` lines, by a binary search: a text may have millions of lines."""
    begin, end, newlines = 0, len(text), count + text.endswith(b"\n")
    while end - begin > _SCANNED_BYTES:
        middle = (begin + end) // 2
        behind = text.count(b"\n", middle, end)
        if behind >= newlines:
            begin = middle
        else:
            end, newlines = middle, newlines - behind
    for _ in range(newlines):
        end = text.rfind(b"\n", begin, end)
        if end < 0:
            return 0
    return end + 1


def whole_characters(text: bytes) -> int:
    """Return the length of `text` without a trailing incomplete UTF-8 character."""
    for back in range(1, min(UTF8_MAX_BYTES, len(text) + 1)):
        byte = text[-back]
        if byte & 0xC0 != 0x80:
            needed = 1 + (byte >= 0xC2) + (byte >= 0xE0) + (byte >= 0xF0) if byte < 0xF5 else 1
            return len(text) - back if needed > back else len(text)
    return len(text)


def page_size(text: bytes, limit: int) -> int:
    """Return the length of the whole UTF-8 characters in the first `limit` bytes, but of at least one character.

    `text` has more than `limit` bytes, by UTF8_MAX_BYTES, unless it ends before.
    """
    return whole_characters(text[:limit]) or whole_characters(text[:UTF8_MAX_BYTES])


def first_character(text: bytes) -> int:
    """Return the length of the first UTF-8 character, or of invalid bytes at the start; 0 if it is incomplete."""
    sizes = (whole_characters(text[:size]) for size in range(1, len(text) + 1))
    return next((whole for whole in sizes if whole), 0)


def whole_line_ends(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Return both ends of a shortened text without the lines that the cuts split; of a single line, whole characters."""
    head = head[: head.rfind(b"\n") + 1] or head[: whole_characters(head)]
    return head, tail[tail.find(b"\n") + 1 :] if b"\n" in tail else tail[leading_continuation_bytes(tail) :]


def leading_continuation_bytes(text: bytes) -> int:
    """Return the number of UTF-8 continuation bytes at the start, at most three: the end of a character that was cut."""
    head = text[: UTF8_MAX_BYTES - 1]
    return next((at for at, byte in enumerate(head) if byte & 0xC0 != 0x80), len(head))


#: Returns the hidden ranges (begin, end) that overlap a range of offsets: ascending, disjoint, not clipped.
FindHidden = Callable[[int, int], Sequence[tuple[int, int]]]

#: The visible text of a memoryview is a memoryview if nothing is hidden.
Text = TypeVar("Text", bytes, memoryview)


def nothing_hidden(begin: int, end: int) -> Sequence[tuple[int, int]]:
    return ()


class PromptLines:
    """The spool ranges of prompt lines, in ascending order; 16 bytes of memory per prompt.

    They come from prompt marks, so output that looks like a prompt is not among them.

    Attributes:
        count: number of lines.
    """

    def __init__(self) -> None:
        self.count = 0
        self._begins = array("Q")
        self._ends = array("Q")

    def add(self, begin: int, end: int) -> None:
        """Append a line."""
        self.count += 1
        self._begins.append(begin)
        self._ends.append(end)

    @classmethod
    def unpacked(cls, data: bytes) -> PromptLines:
        """Return the lines that `packed` encoded."""
        lines, pairs = cls(), array("Q", data)
        lines._begins, lines._ends = pairs[::2], pairs[1::2]
        lines.count = len(lines._begins)
        return lines

    def packed(self, first: int = 0) -> bytes:
        """Encode the lines from index `first`, `PACKED_BYTES` each."""
        pairs = array("Q", bytes(PACKED_BYTES * (self.count - first)))
        pairs[::2], pairs[1::2] = self._begins[first:], self._ends[first:]
        return pairs.tobytes()

    def last(self) -> tuple[int, int] | None:
        """Return the last line."""
        return (self._begins[-1], self._ends[-1]) if self._begins else None

    def first_from(self, offset: int) -> tuple[int, int] | None:
        """Return the first line that begins at or after an offset."""
        at = bisect_left(self._begins, offset)
        return (self._begins[at], self._ends[at]) if at < len(self._begins) else None

    def within(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the lines that overlap a range. They are not clipped to it."""
        at = max(bisect_left(self._begins, begin) - 1, 0)
        found = []
        while at < len(self._begins) and self._begins[at] < end:
            if self._ends[at] > begin:
                found.append((self._begins[at], self._ends[at]))
            at += 1
        return found

    def shown_size(self, begin: int, end: int) -> int:
        """Return the number of bytes in a range that are not part of a prompt line."""
        hidden = sum(min(line_end, end) - max(line_begin, begin) for line_begin, line_end in self.within(begin, end))
        return end - begin - hidden


class HiddenRanges(Generic[Text]):
    """A text without its hidden ranges (`text`), and the mapping between its positions and spool offsets.

    `begin` is the spool offset of `whole`; `ranges` are spool offsets.
    """

    def __init__(self, whole: Text, begin: int, ranges: Sequence[tuple[int, int]]) -> None:
        end = begin + len(whole)
        self._offsets, self._positions = [begin], [0]  # of each visible piece
        pieces, at = [], begin
        for hidden_begin, hidden_end in ranges:
            piece = whole[at - begin : max(hidden_begin, begin) - begin]
            pieces.append(piece)
            at = min(hidden_end, end)
            self._offsets.append(at)
            self._positions.append(self._positions[-1] + len(piece))
        pieces.append(whole[at - begin :])
        self.text: Text | bytes = b"".join(pieces) if ranges else whole

    def position(self, offset: int) -> int:
        """Return the position of an offset in `text`; for a hidden offset, that of the next visible byte."""
        piece = bisect_right(self._offsets, offset) - 1
        last = self._positions[piece + 1] if piece + 1 < len(self._positions) else len(self.text)
        return min(self._positions[piece] + offset - self._offsets[piece], last)

    def offset(self, position: int) -> int:
        """Return the offset of the byte at a position in `text`; for the length of `text`, the end offset of the whole text."""
        piece = bisect_right(self._positions, position) - 1
        return self._offsets[piece] + position - self._positions[piece]

    def end_offset(self, position: int) -> int:
        """Return the offset after the byte before a position; a hidden range that follows that byte is not included."""
        piece = max(bisect_left(self._positions, position) - 1, 0)
        return self._offsets[piece] + position - self._positions[piece]

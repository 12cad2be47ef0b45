"""The spool ranges of prompt lines. They come from prompt marks, so output that looks like a prompt is not among them."""

from __future__ import annotations

from array import array
from bisect import bisect_left

#: Size of one packed line: begin and end as unsigned 64-bit numbers in native byte order.
PACKED_BYTES = 16


class PromptLines:
    """Begin and end offsets in ascending order; 16 bytes of memory per prompt.

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

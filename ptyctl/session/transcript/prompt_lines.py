"""Where the prompts' lines stand in the spool: a mark was there, whatever other text looks like one."""

from __future__ import annotations

from array import array
from bisect import bisect_left

#: The begin and the end of a line, in this machine's byte order.
PACKED_BYTES = 16


class PromptLines:
    """Pairs of spool offsets, ascending. 16 bytes a prompt: a session has as many as commands were run in it."""

    def __init__(self) -> None:
        self._begins = array("Q")
        self._ends = array("Q")

    def __len__(self) -> int:
        return len(self._begins)

    def add(self, begin: int, end: int) -> None:
        self._begins.append(begin)
        self._ends.append(end)

    @classmethod
    def unpacked(cls, data: bytes) -> PromptLines:
        """The lines that `packed` gave."""
        lines, pairs = cls(), array("Q", data)
        lines._begins, lines._ends = pairs[::2], pairs[1::2]
        return lines

    def packed(self, first: int = 0) -> bytes:
        """The lines from a number on, PACKED_BYTES each."""
        pairs = array("Q", bytes(PACKED_BYTES * (len(self) - first)))
        pairs[::2], pairs[1::2] = self._begins[first:], self._ends[first:]
        return pairs.tobytes()

    def last(self) -> tuple[int, int] | None:
        return (self._begins[-1], self._ends[-1]) if self._begins else None

    def first_from(self, offset: int) -> tuple[int, int] | None:
        """The first line that begins at or behind an offset."""
        at = bisect_left(self._begins, offset)
        return (self._begins[at], self._ends[at]) if at < len(self._begins) else None

    def within(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The lines that share a byte with the range, as they are, also where they reach beyond it."""
        at = max(bisect_left(self._begins, begin) - 1, 0)
        found = []
        while at < len(self._begins) and self._begins[at] < end:
            if self._ends[at] > begin:
                found.append((self._begins[at], self._ends[at]))
            at += 1
        return found

    def shown_size(self, begin: int, end: int) -> int:
        """How many bytes of the range are other text."""
        hidden = sum(min(line_end, end) - max(line_begin, begin) for line_begin, line_end in self.within(begin, end))
        return end - begin - hidden

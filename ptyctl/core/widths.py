"""How wide a terminal was when bytes came: what they look like depends on it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Widths:
    """Columns from an offset on, ascending: `first` until the terminal was resized."""

    def __init__(self, first: int, resizes: Iterable[tuple[int, int]] = ()) -> None:
        self._offsets = [0]
        self._columns = [first]
        for offset, columns in resizes:
            self.add(offset, columns)

    def add(self, offset: int, columns: int) -> None:
        self._offsets.append(offset)
        self._columns.append(columns)

    def at(self, offset: int) -> int:
        """The width for a byte that comes at an offset."""
        return self._columns[bisect_right(self._offsets, offset) - 1]

    def within(self, begin: int, end: int) -> list[tuple[int, int]]:
        """What changed behind `begin` and before `end`: the places, counted from `begin`, and the columns from there on."""
        first, last = bisect_right(self._offsets, begin), bisect_right(self._offsets, end - 1)
        return [(self._offsets[number] - begin, self._columns[number]) for number in range(first, last)]

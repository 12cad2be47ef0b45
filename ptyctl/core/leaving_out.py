"""Text of which some ranges are not shown: what is left, and where that stands in the whole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

#: The ranges (begin, end) that share a byte with a range of offsets: ascending, apart from each other, whole.
Hidden = Callable[[int, int], Sequence[tuple[int, int]]]

#: A text, or a view of it: what is left of a view is one too where nothing is hidden.
Text = TypeVar("Text", bytes, memoryview)


def nothing_hidden(begin: int, end: int) -> Sequence[tuple[int, int]]:
    return ()


class LeavingOut(Generic[Text]):
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

    def place(self, offset: int) -> int:
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

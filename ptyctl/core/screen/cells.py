"""What stands in a cell: one character, or several that are drawn as one (Unicode Standard Annex 29; wcwidth).

A row is a string with one character for each column. The second column of a wide character holds `STUB`. A cluster (a letter
and its accents, emoji that are joined) is kept as one character of the private planes 15 and 16 that stands for it.
"""

from __future__ import annotations

from functools import lru_cache

from wcwidth import wcwidth

from .interning import Interned

STUB = "\0"
BLANK = " "
ZWJ = "\u200d"
#: Two of these letters are one flag, which is as wide as they would be: wcwidth has each as wide as the flag.
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)
FIRST_CLUSTER = "\U000f0000"
_LAST_CLUSTER = "\U0010ffff"
#: Longest cluster that is kept; a family of four has seven.
_MAX_CLUSTER = 16


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    """Columns: 0, 1 or 2; -1 for what is never drawn (C1 controls and the like)."""
    return 1 if ord(char) in _REGIONAL_INDICATORS else wcwidth(char)


def columns(row: str) -> list[str]:
    """The text of a picture's row by columns: a cluster in its first, nothing in the second of what is wide."""
    clusters, cells = Clusters(), list[str]()
    for char in row:
        last = next((x for x in range(len(cells) - 1, -1, -1) if cells[x]), None)
        joined = clusters.joined(cells[last], char) if last is not None else None
        if joined is None or last is None:
            cells += [char, *[""] * (width(char) - 1)]
            continue
        cells[last] = joined
    return cells


class Clusters:
    """The clusters of one terminal."""

    def __init__(self) -> None:
        self.table: Interned[str] = Interned(ord(FIRST_CLUSTER), ord(_LAST_CLUSTER), "\ufffd")
        self._expansions: dict[int, str] = {0: ""}

    @property
    def joining(self) -> bool:
        """Whether what is drawn next may join a cell though it has a width."""
        return any(ZWJ in text for text in self.table.values)

    def cell(self, text: str) -> str:
        """The character that stands in the row for `text`."""
        if len(text) == 1 and text < FIRST_CLUSTER:
            return text
        char = self.table.char(text)
        self._expansions[ord(char)] = text if self.table.knows(char) else char
        return char

    def text(self, row: str) -> str:
        """What a row says, its stubs left out."""
        return row if row.isascii() else row.translate(self._expansions)

    def joined(self, cell: str, char: str) -> str | None:
        """The text of `cell` with `char` joined to it; None where the two stay apart.

        As tmux joins: what has no width, and whatever comes after a zero width joiner. The cell stays as wide as it was: line
        editors and editors reckon each character's own width, also of an emoji's skin tone and presentation.
        """
        text = self.text(cell)
        if width(char) != 0 and not text.endswith(ZWJ):
            return None
        return text + char if len(text) < _MAX_CLUSTER else text

    def forget(self, used: set[str]) -> dict[int, str]:
        """Keeps the clusters of `used` cells; the answer translates rows."""
        renamed = self.table.forget(used)
        self._expansions = {0: ""} | {ord(self.table.char(text)): text for text in self.table.values}
        return renamed

    def copy(self) -> Clusters:
        other = Clusters()
        other.table, other._expansions = self.table.copy(), self._expansions.copy()
        return other

"""What stands in a cell: one character, or several that are drawn as one (Unicode Standard Annex 29; wcwidth).

A row is a string with one character for each column. The second column of a wide character holds `STUB`. A cluster (a letter
and its accents, emoji that are joined) is kept as one character of the private planes 15 and 16 that stands for it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import lru_cache
from typing import Generic, TypeVar

from wcwidth import wcwidth

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


def split_columns(row: str) -> list[str]:
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


Value = TypeVar("Value")


class Interned(Generic[Value]):
    """Values by character, beginning at `first`; `spare` stands for what no longer finds a place."""

    def __init__(self, first: int, last: int, spare: str) -> None:
        self._first, self._last, self._spare = first, last, spare
        self.values: list[Value] = []
        self._chars: dict[Value, str] = {}

    def __len__(self) -> int:
        return len(self.values)

    def char(self, value: Value) -> str:
        char = self._chars.get(value)
        if char is None:
            if self._first + len(self.values) > self._last:
                return self._spare
            char = self._chars[value] = chr(self._first + len(self.values))
            self.values.append(value)
        return char

    def value(self, char: str) -> Value:
        return self.values[ord(char) - self._first]

    def knows(self, char: str) -> bool:
        return 0 <= ord(char) - self._first < len(self.values)

    def forget(self, used: Iterable[str]) -> dict[int, str]:
        """Keeps only the values of these characters; the answer translates the old characters to the new ones."""
        kept = {char: self.value(char) for char in sorted(set(used)) if self.knows(char)}
        self.values, self._chars = [], {}
        return {ord(char): self.char(value) for char, value in kept.items()}

    def copy(self) -> Interned[Value]:
        other = copy.copy(self)
        other.values, other._chars = self.values.copy(), self._chars.copy()
        return other


class Grid:
    """Columns and rows are 0-based, ends exclusive, and the caller keeps them in bounds. A wide character of which one half is
    overwritten leaves a blank in place of the other."""

    __slots__ = ("cols", "styles", "text")

    def __init__(self, cols: int, rows: int, style: str) -> None:
        self.cols = cols
        self.text = [BLANK * cols] * rows
        self.styles = [style * cols] * rows

    def put(self, y: int, x: int, text: str, style: str) -> None:
        end = x + len(text)
        row = self.text[y]
        if STUB in row:
            row = _split(_split(row, x), end)
        self.text[y] = row[:x] + text + row[end:]
        styles = self.styles[y]
        self.styles[y] = styles[:x] + style * len(text) + styles[end:]

    def erase(self, y: int, x: int, end: int, style: str) -> None:
        self.put(y, x, BLANK * (end - x), style)

    def erase_rows(self, begin: int, end: int, style: str) -> None:
        count = max(0, end - begin)
        self.text[begin:end] = [BLANK * self.cols] * count
        self.styles[begin:end] = [style * self.cols] * count

    def insert(self, y: int, x: int, count: int, style: str) -> None:
        """Blanks at `x`; what is moved past the right end is lost."""
        count = min(count, self.cols - x)
        row = _split(_split(self.text[y], x), self.cols - count)
        self.text[y] = row[:x] + BLANK * count + row[x : self.cols - count]
        styles = self.styles[y]
        self.styles[y] = styles[:x] + style * count + styles[x : self.cols - count]

    def delete(self, y: int, x: int, count: int, style: str) -> None:
        """What stands right of them closes up; blanks come in at the right end."""
        count = min(count, self.cols - x)
        row = _split(_split(self.text[y], x), x + count)
        self.text[y] = row[:x] + row[x + count :] + BLANK * count
        styles = self.styles[y]
        self.styles[y] = styles[:x] + styles[x + count :] + style * count

    def scroll_up(self, top: int, end: int, count: int, style: str) -> list[str]:
        """Rows leave at `top`, blank ones come in before `end`. The answer is what left."""
        count = min(count, end - top)
        gone = self.text[top : top + count]
        for rows, blank in ((self.text, BLANK * self.cols), (self.styles, style * self.cols)):
            del rows[top : top + count]
            rows[end - count : end - count] = [blank] * count
        return gone

    def scroll_down(self, top: int, end: int, count: int, style: str) -> None:
        count = min(count, end - top)
        for rows, blank in ((self.text, BLANK * self.cols), (self.styles, style * self.cols)):
            del rows[end - count : end]
            rows[top:top] = [blank] * count

    def resize(self, cols: int, rows: int, cursor_row: int, style: str) -> list[str]:
        """Lines are not flowed anew (as xterm). A lower screen loses rows below the cursor first, then rows at its top; the
        answer is the latter. A higher one gets blank rows at its end."""
        lower = max(0, len(self.text) - rows)
        gone = max(0, lower - (len(self.text) - 1 - cursor_row))
        if cols < self.cols:
            self.text = [_split(row, cols) for row in self.text]
        left = self.text[:gone]
        for content, blank in ((self.text, BLANK), (self.styles, style)):
            del content[len(content) - (lower - gone) :]
            del content[:gone]
            content[:] = [row[:cols] + blank * (cols - len(row)) for row in content]
            content += [blank * cols] * (rows - len(content))
        self.cols = cols
        return left

    def copy(self) -> Grid:
        other = Grid(self.cols, 0, BLANK)
        other.text, other.styles = self.text.copy(), self.styles.copy()
        return other


def _split(row: str, at: int) -> str:
    """A wide character that spans the border before column `at` becomes two blanks."""
    return row[: at - 1] + BLANK * 2 + row[at + 1 :] if row[at : at + 1] == STUB else row

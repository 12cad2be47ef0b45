"""Cells of a screen: character widths, interned values, grapheme clusters, and the grid of rows.

A row of characters is a string with one character per column, and so is the row of their styles. The second column of a wide
character holds `STUB`. A cluster (a letter with accents, joined emoji) and a style are interned as one character each. Slicing,
comparing and sharing rows is then fast, and a row takes some hundred bytes instead of some thousands.
(Unicode Standard Annex 29; wcwidth)
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import lru_cache
from typing import Generic, TypeVar

from wcwidth import wcwidth

from ptyctl.core.control_sequences import ZERO_WIDTH_JOINER

STUB = "\0"
BLANK = " "
#: Two regional indicators are one flag of two columns; wcwidth counts two for each.
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)
#: Clusters are interned as characters of the private planes 15 and 16.
FIRST_CLUSTER = "\U000f0000"
_LAST_CLUSTER = "\U0010ffff"
#: Limit of the characters in a cluster; a family of four has seven.
MAX_CLUSTER = 16


@lru_cache(maxsize=4096)
def width(char: str) -> int:
    """Return the number of columns: 0, 1 or 2; -1 for characters that are not drawn, such as C1 controls."""
    return 1 if ord(char) in _REGIONAL_INDICATORS else wcwidth(char)


def width_ranges() -> dict[int, list[tuple[int, int]]]:
    """Return the characters that do not have one column: for each width, the first and the last character of each range.

    Needs about a second. Other clients that draw the same cells use this table and the rules of `Clusters.joined`.
    """
    ranges: dict[int, list[tuple[int, int]]] = {0: [], 2: []}
    before = 1
    for code in (*range(0x20, 0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000)):
        columns = width.__wrapped__(chr(code))
        if columns in ranges:
            if columns == before and ranges[columns][-1][1] == code - 1:
                ranges[columns][-1] = (ranges[columns][-1][0], code)
            else:
                ranges[columns].append((code, code))
        before = columns
    return ranges


def split_columns(row: str) -> list[str]:
    """Split the text of a row into columns. The second column of a wide cluster is empty."""
    clusters, cells = Clusters(), list[str]()
    for char in row:
        last = next((x for x in range(len(cells) - 1, -1, -1) if cells[x]), None)
        joined = clusters.joined(cells[last], char) if last is not None else None
        if joined is None or last is None:
            cells += [char, *[""] * (width(char) - 1)]
            continue
        cells[last] = joined
    return cells


Value = TypeVar("Value")


class Interned(Generic[Value]):
    """Values interned as characters from `first` to `last`; `spare` represents values beyond that range."""

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
        """Keep only the values of the used characters. Returns a translation from old to new characters."""
        kept = {char: self.value(char) for char in sorted(set(used)) if self.knows(char)}
        self.values, self._chars = [], {}
        return {ord(char): self.char(value) for char, value in kept.items()}

    def copy(self) -> Interned[Value]:
        other = copy.copy(self)
        other.values, other._chars = self.values.copy(), self._chars.copy()
        return other


class Clusters:
    """The interned clusters of one terminal."""

    def __init__(self) -> None:
        self.table: Interned[str] = Interned(ord(FIRST_CLUSTER), ord(_LAST_CLUSTER), "\ufffd")
        self._expansions: dict[int, str] = {0: ""}

    @property
    def joining(self) -> bool:
        """Whether a character with a width may join a cell, because a cluster contains a zero width joiner."""
        return any(ZERO_WIDTH_JOINER in text for text in self.table.values)

    def cell(self, text: str) -> str:
        """Return the character for a cell with this text."""
        if len(text) == 1 and text < FIRST_CLUSTER:
            return text
        char = self.table.char(text)
        self._expansions[ord(char)] = text if self.table.knows(char) else char
        return char

    def text(self, row: str) -> str:
        """Return the text of cells, without stubs."""
        return row if row.isascii() else row.translate(self._expansions)

    def joined(self, cell: str, char: str) -> str | None:
        """Return the text of `cell` joined with `char`, or None if they are separate.

        As in tmux, characters without width join, and any character after a zero width joiner. The width of the cell does not
        change: line editors count the width of each character, also of an emoji's skin tone or presentation.
        """
        text = self.text(cell)
        if width(char) != 0 and not text.endswith(ZERO_WIDTH_JOINER):
            return None
        return text + char if len(text) < MAX_CLUSTER else text

    def forget(self, used: set[str]) -> dict[int, str]:
        """Keep only the clusters of the used cells. Returns a translation for rows."""
        renamed = self.table.forget(used)
        self._expansions = {0: ""} | {ord(self.table.char(text)): text for text in self.table.values}
        return renamed

    def copy(self) -> Clusters:
        other = Clusters()
        other.table, other._expansions = self.table.copy(), self._expansions.copy()
        return other


class Grid:
    """The rows of one screen: a string of characters and one of styles for each.

    Columns and rows are 0-based, ends exclusive; the caller keeps them in bounds. Overwriting one half of a wide character
    replaces the other half with a blank.
    """

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

    def erase_except(self, y: int, x: int, end: int, kept: set[str], style: str) -> None:
        """Erase the cells between `x` and `end` whose style is not in `kept`."""
        styles, cells = list(self.styles[y]), list(self.text[y])
        for at in range(x, end):
            if styles[at] in kept:
                continue
            if cells[at] == STUB:
                cells[at - 1] = BLANK
            elif cells[at + 1 : at + 2] == [STUB]:
                cells[at + 1] = BLANK
            cells[at], styles[at] = BLANK, style
        self.text[y], self.styles[y] = "".join(cells), "".join(styles)

    def erase_rows(self, begin: int, end: int, style: str) -> None:
        count = max(0, end - begin)
        self.text[begin:end] = [BLANK * self.cols] * count
        self.styles[begin:end] = [style * self.cols] * count

    def insert(self, y: int, x: int, end: int, count: int, style: str) -> None:
        """Insert blanks at `x`; cells moved past `end` are lost."""
        count = min(count, end - x)
        row = _split(_split(_split(self.text[y], x), end - count), end)
        self.text[y] = row[:x] + BLANK * count + row[x : end - count] + row[end:]
        styles = self.styles[y]
        self.styles[y] = styles[:x] + style * count + styles[x : end - count] + styles[end:]

    def delete(self, y: int, x: int, end: int, count: int, style: str) -> None:
        """Delete cells at `x`. The cells up to `end` move left, and blanks fill the gap."""
        count = min(count, end - x)
        row = _split(_split(_split(self.text[y], x), x + count), end)
        self.text[y] = row[:x] + row[x + count : end] + BLANK * count + row[end:]
        styles = self.styles[y]
        self.styles[y] = styles[:x] + styles[x + count : end] + style * count + styles[end:]

    def cut(self, y: int, x: int, end: int) -> tuple[str, str]:
        """Return the characters and the styles of some cells; half a wide character is a blank."""
        return _split(_split(self.text[y], x), end)[x:end], self.styles[y][x:end]

    def paste(self, y: int, x: int, text: str, styles: str) -> None:
        """Replace cells by the result of `cut`."""
        self.put(y, x, text, BLANK)
        row = self.styles[y]
        self.styles[y] = row[:x] + styles + row[x + len(styles) :]

    def scroll_columns(self, rows: range, x: int, end: int, count: int, style: str) -> None:
        """Scroll some columns of some rows up, or down by a negative count, and fill them with blanks."""
        cells = [self.cut(y, x, end) for y in rows]
        blank = BLANK * (end - x), style * (end - x)
        for number, y in enumerate(rows):
            source = number + count
            self.paste(y, x, *(cells[source] if 0 <= source < len(cells) else blank))

    def scroll_up(self, top: int, end: int, count: int, style: str) -> list[tuple[str, str]]:
        """Remove rows at `top` and insert blank rows before `end`. Returns characters and styles of the removed rows."""
        count = min(count, end - top)
        gone = self._rows(top, top + count)
        for rows, blank in ((self.text, BLANK * self.cols), (self.styles, style * self.cols)):
            del rows[top : top + count]
            rows[end - count : end - count] = [blank] * count
        return gone

    def scroll_down(self, top: int, end: int, count: int, style: str) -> None:
        """Remove rows before `end` and insert blank rows at `top`."""
        count = min(count, end - top)
        for rows, blank in ((self.text, BLANK * self.cols), (self.styles, style * self.cols)):
            del rows[end - count : end]
            rows[top:top] = [blank] * count

    def resize(self, cols: int, rows: int, cursor_row: int, style: str) -> list[tuple[str, str]]:
        """Change the size without reflow, as xterm does. Returns characters and styles of the rows removed at the top.

        With fewer rows, those below the cursor are removed first, then those at the top. New rows are added at the end.
        """
        surplus = max(0, len(self.text) - rows)
        from_top = max(0, surplus - (len(self.text) - 1 - cursor_row))
        if cols < self.cols:
            self.text = [_split(row, cols) for row in self.text]
        gone = self._rows(0, from_top)
        for content, blank in ((self.text, BLANK), (self.styles, style)):
            del content[len(content) - (surplus - from_top) :]
            del content[:from_top]
            content[:] = [row[:cols] + blank * (cols - len(row)) for row in content]
            content += [blank * cols] * (rows - len(content))
        self.cols = cols
        return gone

    def _rows(self, begin: int, end: int) -> list[tuple[str, str]]:
        return list(zip(self.text[begin:end], self.styles[begin:end], strict=True))

    def copy(self) -> Grid:
        other = Grid(self.cols, 0, BLANK)
        other.text, other.styles = self.text.copy(), self.styles.copy()
        return other


def _split(row: str, at: int) -> str:
    """Replace a wide character that spans the border before column `at` with two blanks."""
    return row[: at - 1] + BLANK * 2 + row[at + 1 :] if row[at : at + 1] == STUB else row

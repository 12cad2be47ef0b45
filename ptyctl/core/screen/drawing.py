"""Text onto the canvas: by row where every character stands for itself, else character by character."""

from __future__ import annotations

import re
from functools import lru_cache

from pyte.charsets import VT100_MAP

from . import modes
from .canvas import Canvas
from .cells import BLANK, FIRST_CLUSTER, STUB, width

#: The DEC special graphics (VT220 manual, table 2-4). pyte's table is Linux's: that has also arrows in place of `+,-.`, and a
#: shade where DEC has the picture of a new line.
SPECIAL_GRAPHICS = {code: VT100_MAP[code] for code in range(0x60, 0x7F)} | {ord("_"): " ", ord("h"): "\u2424"}
_PARTS = re.compile("[ -~]+|[^ -~]+")
#: Among cells: here is a character that may join another, or is never drawn.
_APART = "\1"


class Drawing(Canvas):
    def draw(self, data: str) -> None:
        """Draws printable text; what has no width joins the cell before the cursor."""
        if (self.g1_charset if self.charset else self.g0_charset) is VT100_MAP:
            data = data.translate(SPECIAL_GRAPHICS)
        ascii_only = data.isascii()
        cells = data if ascii_only else "".join(map(_cells, data))
        if ascii_only or (_APART not in cells and self._alone()):
            cursor, end = self.cursor, self.cursor.x + len(cells)
            if end <= self.columns and modes.IRM not in self.mode:
                self.grid.put(cursor.y, cursor.x, cells, self.pen)
                cursor.x = end
                return
            if modes.DECAWM in self.mode or STUB not in cells:
                self._draw_cells(cells)
                return
        for part in _PARTS.findall(data):
            if part.isascii():
                self._draw_cells(part)
            else:
                for char in part:
                    self._draw_char(char)

    def _alone(self) -> bool:
        """Whether nothing that is drawn now joins the cell before the cursor, and a wide character has room."""
        x = self.cursor.x
        before = self.grid.text[self.cursor.y][x - 1] if x else BLANK
        return STUB < before < FIRST_CLUSTER and self.columns > 1

    def _draw_cells(self, cells: str) -> None:
        """A wide character for which one column is left wraps whole."""
        cursor, begin = self.cursor, 0
        while begin < len(cells):
            if cursor.x == self.columns or (cursor.x == self.columns - 1 and cells.startswith(STUB, begin + 1)):
                if modes.DECAWM in self.mode:
                    self._wrap()
                else:  # each overwrites the one before
                    cursor.x, begin = self.columns - 1, len(cells) - 1
            end = begin + self.columns - cursor.x
            part = cells[begin : end - cells.startswith(STUB, end)]
            if modes.IRM in self.mode:
                self.grid.insert(cursor.y, cursor.x, len(part), self.blank)
            self.grid.put(cursor.y, cursor.x, part, self.pen)
            cursor.x += len(part)
            begin += len(part)

    def _wrap(self) -> None:
        self.cursor.x = 0
        self.index()

    def _draw_char(self, char: str) -> None:
        columns = width(char)
        if columns < 0 or self._join(char) or not 0 < columns <= self.columns:
            return
        if self.cursor.x + columns > self.columns:
            if modes.DECAWM in self.mode:
                self._wrap()
            elif columns == 1:
                self.cursor.x = self.columns - 1
            else:
                return
        y, x = self.cursor.y, self.cursor.x
        if modes.IRM in self.mode:
            self.grid.insert(y, x, columns, self.blank)
        self.grid.put(y, x, self.clusters.cell(char) + STUB * (columns - 1), self.pen)
        self.cursor.x += columns

    def _join(self, char: str) -> bool:
        """Whether `char` belongs to the cell before the cursor."""
        y, x = self.cursor.y, self.cursor.x - 1
        if x < 0:
            return False
        row = self.grid.text[y]
        if row[x] == STUB:
            x -= 1
        joined = self.clusters.joined(row[x], char)
        if joined is None:
            return False
        self.grid.text[y] = row[:x] + self.clusters.cell(joined) + row[x + 1 :]
        return True


@lru_cache(maxsize=4096)
def _cells(char: str) -> str:
    if char >= FIRST_CLUSTER:
        return _APART
    return {1: char, 2: char + STUB}.get(width(char), _APART)

"""Text onto the canvas: by row where every character takes one column, else character by character."""

from __future__ import annotations

import re

from pyte.charsets import VT100_MAP

from . import modes
from .canvas import Canvas
from .cells import BLANK, FIRST_CLUSTER, STUB, width

#: The DEC special graphics (VT220 manual, table 2-4). pyte's table is Linux's: that has also arrows in place of `+,-.`, and a
#: shade where DEC has the picture of a new line.
SPECIAL_GRAPHICS = {code: VT100_MAP[code] for code in range(0x60, 0x7F)} | {ord("_"): " ", ord("h"): "\u2424"}


_PARTS = re.compile("[ -~]+|[^ -~]+")


class Drawing(Canvas):
    def draw(self, data: str) -> None:
        """Draws printable text; what has no width joins the cell before the cursor."""
        if (self.g1_charset if self.charset else self.g0_charset) is VT100_MAP:
            data = data.translate(SPECIAL_GRAPHICS)
        if data.isascii() or self._narrow(data):
            cursor, end = self.cursor, self.cursor.x + len(data)
            if end <= self.columns and modes.IRM not in self.mode:
                self.grid.put(cursor.y, cursor.x, data, self.pen)
                cursor.x = end
            else:
                self._draw_run(data)
            return
        for part in _PARTS.findall(data):
            if part.isascii():
                self._draw_run(part)
            else:
                for char in part:
                    self._draw_char(char)

    def _narrow(self, data: str) -> bool:
        """Whether each character takes a column of its own, and the first does not join the cell before."""
        x = self.cursor.x
        before = self.grid.text[self.cursor.y][x - 1] if x else BLANK
        chars = set(data)
        return STUB < before < FIRST_CLUSTER and max(chars) < FIRST_CLUSTER and all(width(char) == 1 for char in chars)

    def _draw_run(self, data: str) -> None:
        cursor, begin = self.cursor, 0
        while begin < len(data):
            if cursor.x == self.columns:
                if modes.DECAWM in self.mode:
                    self._wrap()
                else:  # each overwrites the one before
                    cursor.x, begin = self.columns - 1, len(data) - 1
            part = data[begin : begin + self.columns - cursor.x]
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
        """Whether `char` belongs to the cell before the cursor; one that makes it wide moves the cursor too."""
        y, x = self.cursor.y, self.cursor.x - 1
        if x < 0:
            return False
        row = self.grid.text[y]
        if row[x] == STUB:
            x -= 1
        joined = self.clusters.joined(row[x], char)
        if joined is None:
            return False
        text, wide = joined
        cell, style = self.clusters.cell(text), self.grid.styles[y][x]
        if wide and row[x + 1 : x + 2] != STUB:
            if x + 1 < self.columns:  # else it stays as it is: there is no room
                self.grid.put(y, x, cell + STUB, style)
                self.cursor.x = x + 2
        else:
            self.grid.text[y] = row[:x] + cell + row[x + 1 :]
        return True

"""The cursor, margins and tab stops: pyte's, where they agree with xterm, and else moved as xterm moves them.

`cursor.x == columns` is a cursor on the last column that will wrap before the next character (DEC STD 070, the last column
flag). Every motion ends that state, except a tab, which has nowhere to go, and a line feed.
"""

from __future__ import annotations

import pyte
from pyte.screens import Margins

from . import modes


class Motion(pyte.Screen):
    @property
    def region(self) -> tuple[int, int]:
        """The first and the last row that scroll."""
        return self.margins if self.margins is not None else (0, self.lines - 1)

    def cursor_up(self, count: int | None = None) -> None:
        """Margins stop only a cursor that is not beyond them already."""
        top, _ = self.region
        y = self.cursor.y
        self.cursor.y = max(y - (count or 1), top if y >= top else 0)
        self.ensure_hbounds()

    def cursor_down(self, count: int | None = None) -> None:
        _, bottom = self.region
        y = self.cursor.y
        self.cursor.y = min(y + (count or 1), bottom if y <= bottom else self.lines - 1)
        self.ensure_hbounds()

    def cursor_position(self, line: int | None = None, column: int | None = None) -> None:
        """In origin mode rows count from the top margin, and the cursor stays between the margins."""
        cursor, x, y = self.cursor, (column or 1) - 1, (line or 1) - 1
        last_row = self.lines - 1
        if modes.DECOM in self.mode:
            top, last_row = self.region
            y += top
        cursor.x = x if x < self.columns else self.columns - 1
        cursor.y = y if y < last_row else last_row

    def cursor_to_line(self, line: int | None = None) -> None:
        self.cursor_position(line, min(self.cursor.x, self.columns - 1) + 1)

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        """One row cannot scroll: that is ignored. The cursor goes home."""
        first, last = max(1, top or 1) - 1, min(bottom or self.lines, self.lines) - 1
        if first < last:
            self.margins = None if (first, last) == (0, self.lines - 1) else Margins(first, last)
            self.cursor_position()

    def tab(self, count: int | None = None) -> None:
        for _ in range(min(count or 1, self.columns - 1 - self.cursor.x)):
            self.cursor.x = min((stop for stop in self.tabstops if stop > self.cursor.x), default=self.columns - 1)

    def back_tab(self, count: int | None = None) -> None:
        for _ in range(min(count or 1, self.cursor.x)):
            self.cursor.x = max((stop for stop in self.tabstops if stop < self.cursor.x), default=0)

    def set_tab_stop(self) -> None:
        """Nothing moves: a cursor that will wrap still does."""
        self.tabstops.add(min(self.cursor.x, self.columns - 1))

    def clear_tab_stop(self, how: int = 0) -> None:
        if how == 0:
            self.tabstops.discard(min(self.cursor.x, self.columns - 1))
        elif how == 3:
            self.tabstops.clear()

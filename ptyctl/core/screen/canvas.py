"""What sequences do to the cells and the screens. An erased cell has the background's colour and no other attribute (xterm)."""

from __future__ import annotations

from typing import Any

from . import modes
from .grid import Grid
from .state import DEFAULT_STYLE, State


class Canvas(State):
    # Rows.

    def index(self) -> None:
        """IND, and what a line feed does."""
        top, bottom = self.region
        if self.cursor.y == bottom:
            self._scroll_up(top, bottom, 1)
        elif self.cursor.y < self.lines - 1:
            self.cursor.y += 1

    def reverse_index(self) -> None:
        top, bottom = self.region
        if self.cursor.y == top:
            self.grid.scroll_down(top, bottom + 1, 1, self.blank)
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    def scroll_up(self, count: int) -> None:
        """SU"""
        self._scroll_up(*self.region, count)

    def scroll_down(self, count: int) -> None:
        """SD"""
        top, bottom = self.region
        self.grid.scroll_down(top, bottom + 1, count, self.blank)

    def _scroll_up(self, top: int, bottom: int, count: int) -> None:
        """What leaves the main screen at its top is kept, as in xterm also when a bottom margin is set."""
        gone = self.grid.scroll_up(top, bottom + 1, count, self.blank)
        if top == 0 and self.main is None:
            self.history.extend(map(self.plain, gone))

    def insert_lines(self, count: int | None = None) -> None:
        top, bottom = self.region
        if top <= self.cursor.y <= bottom:
            self.grid.scroll_down(self.cursor.y, bottom + 1, count or 1, self.blank)
            self.carriage_return()

    def delete_lines(self, count: int | None = None) -> None:
        top, bottom = self.region
        if top <= self.cursor.y <= bottom:
            self.grid.scroll_up(self.cursor.y, bottom + 1, count or 1, self.blank)
            self.carriage_return()

    # Cells of a row.

    def insert_characters(self, count: int | None = None) -> None:
        self.ensure_hbounds()
        self.grid.insert(self.cursor.y, self.cursor.x, count or 1, self.blank)

    def delete_characters(self, count: int | None = None) -> None:
        self.ensure_hbounds()
        self.grid.delete(self.cursor.y, self.cursor.x, count or 1, self.blank)

    def erase_characters(self, count: int | None = None) -> None:
        self.ensure_hbounds()
        x = self.cursor.x
        self.grid.erase(self.cursor.y, x, min(x + (count or 1), self.columns), self.blank)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        self.ensure_hbounds()
        if 0 <= how <= 2:
            begin, end = self.cursor.x if how == 0 else 0, self.cursor.x + 1 if how == 1 else self.columns
            self.grid.erase(self.cursor.y, begin, end, self.blank)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how == 3:
            self.history.clear()
            return
        y = self.cursor.y
        span = {0: (y + 1, self.lines), 1: (0, y), 2: (0, self.lines)}.get(how)
        if span is not None:
            self.grid.erase_rows(*span, self.blank)
        if how in (0, 1):
            self.erase_in_line(how)

    def alignment_display(self) -> None:
        """DECALN: the margins go, and the cursor goes home."""
        self.margins = None
        self.cursor_position()
        self.grid.text = ["E" * self.columns] * self.lines
        self.grid.styles = [DEFAULT_STYLE * self.columns] * self.lines

    # The whole.

    def set_mode(self, *numbers: int, **kwargs: Any) -> None:
        self._switch_all(numbers, private=bool(kwargs.get("private")), on=True)

    def reset_mode(self, *numbers: int, **kwargs: Any) -> None:
        self._switch_all(numbers, private=bool(kwargs.get("private")), on=False)

    def _switch_all(self, numbers: tuple[int, ...], *, private: bool, on: bool) -> None:
        """A number of a public mode must not pass for a shifted private one."""
        for number in numbers:
            if private or number in modes.PUBLIC:
                self._switch(modes.private(number) if private else number, on=on)

    def _switch(self, mode: int, *, on: bool) -> None:
        if mode in modes.ALTERNATE:
            self._show(alternate=on, with_cursor=mode == modes.ALTERNATE_AND_CURSOR)
        elif mode == modes.SAVED_CURSOR:
            self.save_cursor() if on else self.restore_cursor()
        elif mode == modes.DECCOLM:  # the size is whoever's who owns the terminal
            self.cursor_position()
            self.erase_in_display(2)
        elif mode in modes.KNOWN:
            if mode in modes.MOUSE:
                self.mode -= modes.MOUSE
            (self.mode.add if on else self.mode.discard)(mode)
            self.cursor.hidden = modes.DECTCEM not in self.mode
            if mode == modes.DECOM:
                self.cursor_position()

    def _show(self, *, alternate: bool, with_cursor: bool) -> None:
        """The alternate screen is blank whenever it comes (as in tmux; xterm clears it for 1047 and 1049)."""
        if alternate and self.main is None:
            if with_cursor:
                self.save_cursor()
            self.main, self.grid = self.grid, Grid(self.columns, self.lines, self.blank)
            self.repainted = True
        elif not alternate:
            if self.main is not None:
                self.grid, self.main = self.main, None
                self.saved.pop(True, None)
                self.repainted = True
            if with_cursor and False in self.saved:
                self.restore_cursor()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """As xterm and tmux without flowing lines anew. Margins go; new columns get tab stops."""
        lines, columns = lines or self.lines, columns or self.columns
        if (lines, columns) == (self.lines, self.columns):
            return
        self.ensure_hbounds()
        before, self.lines, self.columns = self.columns, lines, columns
        if self.main is not None:
            self._resize(self.main, False, self.saved[False].y if False in self.saved else self.cursor.y)
        self.cursor.y -= self._resize(self.grid, self.alternate, self.cursor.y)
        self.tabstops.update(range(-(-before // 8) * 8, columns, 8))
        self.tabstops = {stop for stop in self.tabstops if stop < columns}
        self.margins = None
        self.ensure_vbounds()
        self.ensure_hbounds()
        self.repainted = True

    def _resize(self, grid: Grid, alternate: bool, row: int) -> int:
        """How many rows leave one of the screens at its top, to keep `row` on it."""
        before = grid.cols
        gone = grid.resize(self.columns, self.lines, row, DEFAULT_STYLE)
        if not alternate:
            self.history.extend(map(self.plain, gone))
        if alternate in self.saved:
            saved = self.saved[alternate]
            x, y = min(saved.x, before - 1, self.columns - 1), min(max(0, saved.y - len(gone)), self.lines - 1)
            self.saved[alternate] = saved._replace(x=x, y=y)
        return len(gone)

"""The emulated terminal: cells, cursor, margins, tab stops, modes, character sets, styles, and both screens.

Methods implement control functions; `dispatch.py` calls them. Behaviour follows xterm, and tmux where noted. The base class
`pyte.Screen` provides cursor, margins, modes, tab stops and character sets where they agree with xterm. Cells are
strings in a `Grid`: pyte's dict of tuples for each row takes 800 KB a screen and draws 1 MB/s.
"""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Self

import pyte
from pyte.charsets import LAT1_MAP, VT100_MAP
from pyte.screens import Margins

from . import modes
from .attributes import PLAIN, Style, restyled
from .cells import BLANK, FIRST_CLUSTER, STUB, Clusters, Grid, Interned, width

#: The character for `PLAIN` in the styles of a row.
DEFAULT_STYLE = "\0"
#: Limit of the interned styles, style changes and clusters; beyond it, unused ones are dropped.
_MAX_INTERNED = 4096
_MAX_RESPONSES = 64

#: DEC special graphics (VT220 manual, table 2-4). pyte's table is that of the Linux console: it also maps `+,-.` to arrows, and
#: `h` to a shade instead of the symbol for newline.
SPECIAL_GRAPHICS = {code: VT100_MAP[code] for code in range(0x60, 0x7F)} | {ord("_"): " ", ord("h"): "\u2424"}
_ASCII_PARTS = re.compile("[ -~]+|[^ -~]+")
#: Placeholder among cells for a character that may join another one or is never drawn.
_SPECIAL = "\1"


class SavedCursor(NamedTuple):
    """The state that DECSC saves (VT510 manual). Each screen has its own."""

    x: int
    y: int
    pen: str
    g0: str
    g1: str
    charset: int
    origin: bool


_HOME = SavedCursor(0, 0, DEFAULT_STYLE, LAT1_MAP, LAT1_MAP, 0, origin=False)


class Emulator(pyte.Screen):
    """A terminal of `columns` by `lines` that keeps up to `scrollback` lines scrolled off the main screen.

    `cursor.x == columns` is the pending wrap: the cursor is on the last column and wraps before the next character (DEC STD
    070, last column flag). Every cursor motion clears it, except a tab at the last column and a line feed.
    """

    def __init__(self, columns: int, lines: int, scrollback: int) -> None:
        self.styles: Interned[Style] = Interned(0, 0x10FFFF, DEFAULT_STYLE)
        self.styles.char(PLAIN)
        self._style_changes: dict[tuple[str, str], tuple[str, str]] = {}
        self.clusters = Clusters()
        self._styles_limit = self._clusters_limit = _MAX_INTERNED
        self.scrollback = scrollback
        self.history: deque[str] = deque(maxlen=scrollback)
        self.title = ""
        self.titles: list[str] = []
        self.responses: list[bytes] = []
        #: The character that REP repeats.
        self.last = ""
        super().__init__(columns, lines)

    def reset(self) -> None:
        """Reset to the initial state (RIS), except for the title, as xterm does, and the scrollback."""
        title = self.title
        super().reset()
        self.title = title
        self.g1_charset = LAT1_MAP  # as in xterm; pyte starts with line drawing, as the Linux console does
        self.pen = self.blank = DEFAULT_STYLE
        self.cursor_style = 0
        self.grid = Grid(self.columns, self.lines, DEFAULT_STYLE)
        #: The main screen while the alternate screen is shown.
        self.main: Grid | None = None
        self.saved: dict[bool, SavedCursor] = {}

    def soft_reset(self) -> None:
        """Reset modes and attributes; keep the cells (DECSTR)."""
        self.mode = (self.mode - {modes.IRM, modes.DECOM, modes.DECCKM, modes.DECNKM}) | modes.DEFAULT
        self.margins = None
        self.cursor.hidden = False
        self.pen = self.blank = DEFAULT_STYLE
        self.g0_charset, self.g1_charset, self.charset = LAT1_MAP, LAT1_MAP, 0
        self.saved.pop(self.alternate, None)

    @property
    def alternate(self) -> bool:
        """Whether the alternate screen is shown."""
        return self.main is not None

    @property
    def region(self) -> tuple[int, int]:
        """The first and the last row of the scrolling region."""
        return self.margins if self.margins is not None else (0, self.lines - 1)

    def plain(self, row: str) -> str:
        """Return the text of a row without trailing blanks."""
        return (row if row.isascii() else self.clusters.text(row)).rstrip(" ")

    def write_process_input(self, data: str) -> None:
        """Queue a response for the far end; drop it if the queue is full."""
        if len(self.responses) < _MAX_RESPONSES:
            self.responses.append(data.encode())

    # Style and saved cursor.

    def restyle(self, parameters: str) -> None:
        """Change the pen (SGR)."""
        change = self._style_changes.get((self.pen, parameters))
        if change is None:
            pen = self.styles.char(restyled(self.styles.value(self.pen), parameters))
            change = pen, self._blank(pen)
            if len(self._style_changes) >= _MAX_INTERNED:
                self._style_changes.clear()
            self._style_changes[self.pen, parameters] = change
        self.pen, self.blank = change

    def _blank(self, pen: str) -> str:
        """Return the style of erased cells: the background colour and no other attribute (xterm)."""
        return self.styles.char(Style(bg=self.styles.value(pen).bg))

    def cursor_state(self) -> SavedCursor:
        charsets = self.g0_charset, self.g1_charset, self.charset
        return SavedCursor(self.cursor.x, self.cursor.y, self.pen, *charsets, origin=modes.DECOM in self.mode)

    def save_cursor(self) -> None:
        """Save the cursor (DECSC)."""
        self.saved[self.alternate] = self.cursor_state()

    def restore_cursor(self) -> None:
        """Restore the saved cursor (DECRC)."""
        saved = self.saved.get(self.alternate, _HOME)
        self.mode = self.mode | {modes.DECOM} if saved.origin else self.mode - {modes.DECOM}
        self.g0_charset, self.g1_charset, self.charset = saved.g0, saved.g1, saved.charset
        self.pen, self.blank, self.cursor.y = saved.pen, self._blank(saved.pen), saved.y
        self.ensure_vbounds()
        self.cursor.x = min(saved.x, self.columns)

    # Cursor, margins and tab stops.

    def cursor_up(self, count: int | None = None) -> None:
        """Move the cursor up (CUU). It stops at the top margin, or at the first row if it starts above the margin."""
        top, _ = self.region
        y = self.cursor.y
        self.cursor.y = max(y - (count or 1), top if y >= top else 0)
        self.ensure_hbounds()

    def cursor_down(self, count: int | None = None) -> None:
        """Move the cursor down (CUD). It stops at the bottom margin, or at the last row if it starts below the margin."""
        _, bottom = self.region
        y = self.cursor.y
        self.cursor.y = min(y + (count or 1), bottom if y <= bottom else self.lines - 1)
        self.ensure_hbounds()

    def cursor_position(self, line: int | None = None, column: int | None = None) -> None:
        """Move the cursor to a position (CUP). In origin mode rows count from the top margin, and margins limit the cursor."""
        cursor, x, y = self.cursor, (column or 1) - 1, (line or 1) - 1
        last_row = self.lines - 1
        if modes.DECOM in self.mode:
            top, last_row = self.region
            y += top
        cursor.x = x if x < self.columns else self.columns - 1
        cursor.y = y if y < last_row else last_row

    def cursor_to_line(self, line: int | None = None) -> None:
        """Move the cursor to a row (VPA)."""
        self.cursor_position(line, min(self.cursor.x, self.columns - 1) + 1)

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        """Set the scrolling region and move the cursor home (DECSTBM). A region of one row is ignored."""
        first, last = max(1, top or 1) - 1, min(bottom or self.lines, self.lines) - 1
        if first < last:
            self.margins = None if (first, last) == (0, self.lines - 1) else Margins(first, last)
            self.cursor_position()

    def tab(self, count: int | None = None) -> None:
        """Move the cursor to the next tab stops (HT, CHT)."""
        for _ in range(min(count or 1, self.columns - 1 - self.cursor.x)):
            self.cursor.x = min((stop for stop in self.tabstops if stop > self.cursor.x), default=self.columns - 1)

    def back_tab(self, count: int | None = None) -> None:
        """Move the cursor back `count` tab stops (CBT)."""
        for _ in range(min(count or 1, self.cursor.x)):
            self.cursor.x = max((stop for stop in self.tabstops if stop < self.cursor.x), default=0)

    def set_tab_stop(self) -> None:
        """Set a tab stop at the cursor (HTS). Keeps a pending wrap."""
        self.tabstops.add(min(self.cursor.x, self.columns - 1))

    def clear_tab_stop(self, how: int = 0) -> None:
        """Clear the tab stop at the cursor (0), or all of them (3) (TBC)."""
        if how == 0:
            self.tabstops.discard(min(self.cursor.x, self.columns - 1))
        elif how == 3:
            self.tabstops.clear()

    # Scrolling and lines.

    def index(self) -> None:
        """Move the cursor down; at the bottom margin, scroll up (IND, line feed)."""
        top, bottom = self.region
        if self.cursor.y == bottom:
            self._scroll_up(top, bottom, 1)
        elif self.cursor.y < self.lines - 1:
            self.cursor.y += 1

    def reverse_index(self) -> None:
        """Move the cursor up; at the top margin, scroll down (RI)."""
        top, bottom = self.region
        if self.cursor.y == top:
            self.grid.scroll_down(top, bottom + 1, 1, self.blank)
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    def scroll_up(self, count: int) -> None:
        """Scroll the region up (SU)."""
        self._scroll_up(*self.region, count)

    def scroll_down(self, count: int) -> None:
        """Scroll the region down (SD)."""
        top, bottom = self.region
        self.grid.scroll_down(top, bottom + 1, count, self.blank)

    def _scroll_up(self, top: int, bottom: int, count: int) -> None:
        """Scroll a region. Rows that leave the top of the main screen go to the history, also with a bottom margin (xterm)."""
        gone = self.grid.scroll_up(top, bottom + 1, count, self.blank)
        if top == 0 and self.main is None:
            self.history.extend(map(self.plain, gone))

    def insert_lines(self, count: int | None = None) -> None:
        """Insert lines at the cursor (IL)."""
        top, bottom = self.region
        if top <= self.cursor.y <= bottom:
            self.grid.scroll_down(self.cursor.y, bottom + 1, count or 1, self.blank)
            self.carriage_return()

    def delete_lines(self, count: int | None = None) -> None:
        """Delete lines at the cursor (DL)."""
        top, bottom = self.region
        if top <= self.cursor.y <= bottom:
            self.grid.scroll_up(self.cursor.y, bottom + 1, count or 1, self.blank)
            self.carriage_return()

    # Cells.

    def insert_characters(self, count: int | None = None) -> None:
        """Insert blank cells at the cursor (ICH)."""
        self.ensure_hbounds()
        self.grid.insert(self.cursor.y, self.cursor.x, count or 1, self.blank)

    def delete_characters(self, count: int | None = None) -> None:
        """Delete cells at the cursor (DCH)."""
        self.ensure_hbounds()
        self.grid.delete(self.cursor.y, self.cursor.x, count or 1, self.blank)

    def erase_characters(self, count: int | None = None) -> None:
        """Erase cells from the cursor on (ECH)."""
        self.ensure_hbounds()
        x = self.cursor.x
        self.grid.erase(self.cursor.y, x, min(x + (count or 1), self.columns), self.blank)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """Erase the row from the cursor on (0), up to the cursor (1), or entirely (2) (EL)."""
        self.ensure_hbounds()
        if 0 <= how <= 2:
            begin, end = self.cursor.x if how == 0 else 0, self.cursor.x + 1 if how == 1 else self.columns
            self.grid.erase(self.cursor.y, begin, end, self.blank)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        """Erase the screen from the cursor on (0), up to it (1), or entirely (2); clear the scrollback (3, xterm) (ED)."""
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
        """Fill the screen with E, clear the margins, and move the cursor home (DECALN)."""
        self.margins = None
        self.cursor_position()
        self.grid.text = ["E" * self.columns] * self.lines
        self.grid.styles = [DEFAULT_STYLE * self.columns] * self.lines

    # Modes, screens and size.

    def set_mode(self, *numbers: int, **kwargs: Any) -> None:
        """Set modes (SM, DECSET)."""
        self._switch_all(numbers, private=bool(kwargs.get("private")), on=True)

    def reset_mode(self, *numbers: int, **kwargs: Any) -> None:
        """Reset modes (RM, DECRST)."""
        self._switch_all(numbers, private=bool(kwargs.get("private")), on=False)

    def _switch_all(self, numbers: tuple[int, ...], *, private: bool, on: bool) -> None:
        """Ignores unknown public modes, whose numbers could equal the shifted number of a private mode."""
        for number in numbers:
            if private or number in modes.PUBLIC:
                self._switch(modes.private(number) if private else number, on=on)

    def _switch(self, mode: int, *, on: bool) -> None:
        if mode in modes.ALTERNATE:
            self._show_screen(alternate=on, with_cursor=mode == modes.ALTERNATE_AND_CURSOR)
        elif mode == modes.SAVED_CURSOR:
            self.save_cursor() if on else self.restore_cursor()
        elif mode == modes.DECCOLM:  # the far end does not change the size
            self.cursor_position()
            self.erase_in_display(2)
        elif mode in modes.KNOWN:
            if mode in modes.MOUSE:
                self.mode -= modes.MOUSE
            (self.mode.add if on else self.mode.discard)(mode)
            self.cursor.hidden = modes.DECTCEM not in self.mode
            if mode == modes.DECOM:
                self.cursor_position()

    def _show_screen(self, *, alternate: bool, with_cursor: bool) -> None:
        """Switch screens. The alternate screen starts blank, as in tmux; xterm clears it for 1047 and 1049."""
        if alternate and self.main is None:
            if with_cursor:
                self.save_cursor()
            self.main, self.grid = self.grid, Grid(self.columns, self.lines, self.blank)
        elif not alternate:
            if self.main is not None:
                self.grid, self.main = self.main, None
                self.saved.pop(True, None)
            if with_cursor and False in self.saved:
                self.restore_cursor()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size as xterm does, and tmux without reflow. Clears margins; new columns get default tab stops."""
        lines, columns = lines or self.lines, columns or self.columns
        if (lines, columns) == (self.lines, self.columns):
            return
        self.ensure_hbounds()
        before, self.lines, self.columns = self.columns, lines, columns
        if self.main is not None:
            self._resize_grid(self.main, False, self.saved[False].y if False in self.saved else self.cursor.y)
        self.cursor.y -= self._resize_grid(self.grid, self.alternate, self.cursor.y)
        self.tabstops.update(range(-(-before // 8) * 8, columns, 8))
        self.tabstops = {stop for stop in self.tabstops if stop < columns}
        self.margins = None
        self.ensure_vbounds()
        self.ensure_hbounds()

    def _resize_grid(self, grid: Grid, alternate: bool, row: int) -> int:
        """Resize one screen, keeping `row` on it. Returns the number of rows removed at the top."""
        before = grid.cols
        gone = grid.resize(self.columns, self.lines, row, DEFAULT_STYLE)
        if not alternate:
            self.history.extend(map(self.plain, gone))
        if alternate in self.saved:
            saved = self.saved[alternate]
            x, y = min(saved.x, before - 1, self.columns - 1), min(max(0, saved.y - len(gone)), self.lines - 1)
            self.saved[alternate] = saved._replace(x=x, y=y)
        return len(gone)

    # Printable text.

    def draw(self, data: str) -> None:
        """Draw printable text at the cursor. Zero-width characters join the cell before the cursor.

        Text in which every character takes whole cells is written in slices of a row; other text character by character.
        """
        if (self.g1_charset if self.charset else self.g0_charset) is VT100_MAP:
            data = data.translate(SPECIAL_GRAPHICS)
        ascii_only = data.isascii()
        cells = data if ascii_only else "".join(map(_cells_of, data))
        if ascii_only or (_SPECIAL not in cells and self._is_join_free()):
            cursor, end = self.cursor, self.cursor.x + len(cells)
            if end <= self.columns and modes.IRM not in self.mode:
                self.grid.put(cursor.y, cursor.x, cells, self.pen)
                cursor.x = end
                return
            if modes.DECAWM in self.mode or STUB not in cells:
                self._draw_cells(cells)
                return
        for part in _ASCII_PARTS.findall(data):
            if part.isascii():
                self._draw_cells(part)
            else:
                for char in part:
                    self._draw_char(char)

    def _is_join_free(self) -> bool:
        """Whether the cell before the cursor cannot be joined, and a wide character fits the screen."""
        x = self.cursor.x
        before = self.grid.text[self.cursor.y][x - 1] if x else BLANK
        return STUB < before < FIRST_CLUSTER and self.columns > 1

    def _draw_cells(self, cells: str) -> None:
        """Draw cells with wrapping. A wide character that does not fit the last column wraps as a whole."""
        cursor, begin = self.cursor, 0
        while begin < len(cells):
            if cursor.x == self.columns or (cursor.x == self.columns - 1 and cells.startswith(STUB, begin + 1)):
                if modes.DECAWM in self.mode:
                    self._wrap()
                else:  # without autowrap each character overwrites the last column: only the final one remains
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
        """Join `char` to the cell before the cursor if they form a cluster; return whether they do."""
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

    # Interned values and copies.

    def collect_unused(self) -> None:
        """Drop interned styles and clusters that no screen uses, once their number exceeds a limit."""
        if len(self.styles) > self._styles_limit:
            self._collect_styles()
        if len(self.clusters.table) > self._clusters_limit:
            renamed = self.clusters.forget(set().union(*(row for grid in self._grids() for row in grid.text)))
            for grid in self._grids():
                grid.text = [row.translate(renamed) for row in grid.text]
            self._clusters_limit = max(_MAX_INTERNED, 2 * len(self.clusters.table))

    def _collect_styles(self) -> None:
        pens = {DEFAULT_STYLE, self.pen, self.blank, *(saved.pen for saved in self.saved.values())}
        renamed = self.styles.forget(pens.union(*(row for grid in self._grids() for row in grid.styles)))
        for grid in self._grids():
            grid.styles = [row.translate(renamed) for row in grid.styles]
        self.pen, self.blank = self.pen.translate(renamed), self.blank.translate(renamed)
        self.saved = {which: saved._replace(pen=saved.pen.translate(renamed)) for which, saved in self.saved.items()}
        self._style_changes.clear()
        self._styles_limit = max(_MAX_INTERNED, 2 * len(self.styles))

    def _grids(self) -> Iterator[Grid]:
        yield self.grid
        if self.main is not None:
            yield self.main

    def copy(self) -> Self:
        other = copy.copy(self)
        other.styles, other.clusters, other._style_changes = self.styles.copy(), self.clusters.copy(), {}
        other.history, other.titles, other.responses = self.history.copy(), self.titles.copy(), self.responses.copy()
        other.mode, other.tabstops, other.cursor = self.mode.copy(), self.tabstops.copy(), copy.copy(self.cursor)
        other.grid, other.main = self.grid.copy(), self.main.copy() if self.main is not None else None
        other.saved = self.saved.copy()
        return other


@lru_cache(maxsize=4096)
def _cells_of(char: str) -> str:
    if char >= FIRST_CLUSTER:
        return _SPECIAL
    return {1: char, 2: char + STUB}.get(width(char), _SPECIAL)

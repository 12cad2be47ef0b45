"""The emulated terminal: cells, cursor, margins, tab stops, modes, character sets, styles, and both screens.

Methods implement control functions; `dispatch.py` calls them. Behaviour follows xterm, and tmux where noted. The base class
`pyte.Screen` provides cursor, margins, modes, tab stops and character sets where they agree with xterm. Cells are
strings in a `Grid`: pyte's dict of tuples for each row takes 800 KB a screen and draws 1 MB/s.
"""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, Self

import pyte
from pyte.charsets import LAT1_MAP, VT100_MAP
from pyte.screens import Margins

from ptyctl.core.control_sequences import SPECIAL_GRAPHICS

from . import modes
from .attributes import PLAIN, Style, restyled
from .cells import BLANK, FIRST_CLUSTER, STUB, Clusters, Grid, Interned, width
from .colours import Colours

#: The character for `PLAIN` in the styles of a row.
DEFAULT_STYLE = "\0"
#: Limit of the interned styles, style changes and clusters; beyond it, unused ones are dropped.
_MAX_INTERNED = 4096
_MAX_RESPONSES = 64
#: Parameters of SGR that are cached are at most this long (characters).
_CACHED_PARAMETERS = 64
#: Limit of the cells in the scrollback, for very wide terminals.
_SCROLLBACK_CELLS = 2_000_000
#: Costs are numbers of cells, each of about 10 ns. This is the cost of changing a row, in addition to its cells.
_ROW_COST = 256
#: Cost after which drawing can pause: about 3 ms.
STEP_COST = 1 << 18

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
    070, last column flag). At a right margin, `margin_wrap` marks it: the cursor is then one column past the margin. Every
    cursor motion clears it, except a tab at the last column and a line feed.
    """

    def __init__(self, columns: int, lines: int, scrollback: int) -> None:
        self.styles: Interned[Style] = Interned(0, 0x10FFFF, DEFAULT_STYLE)
        self.styles.char(PLAIN)
        self._style_changes: dict[tuple[str, str], tuple[str, str]] = {}
        self.clusters = Clusters()
        self._styles_limit = self._clusters_limit = _MAX_INTERNED
        self.scrollback = scrollback
        #: The lines that scrolled off the main screen: text, and the styles of its columns up to the last styled one.
        self.history: deque[tuple[str, str]] = deque(maxlen=min(scrollback, _SCROLLBACK_CELLS // columns))
        #: The number of the next line of the history.
        self.scrolled = 0
        self.title = ""
        self.titles: list[str] = []
        self.responses: list[bytes] = []
        #: How DECRQCRA computes a checksum (XTCHECKSUM); no reset changes it.
        self.checksum_flags = 0
        #: The character that REP repeats.
        self.last = ""
        #: The cost of everything drawn so far, and the cost at which drawing pauses.
        self.cost = 0
        self.pause_at = STEP_COST
        super().__init__(columns, lines)

    def reset(self) -> None:
        """Reset to the initial state (RIS), except for the title, as xterm does, and the scrollback."""
        self.charge(2, self.columns)
        title = self.title
        super().reset()
        self.title = title
        self.g1_charset = LAT1_MAP  # as in xterm; pyte starts with line drawing, as the Linux console does
        self.pen = self.blank = DEFAULT_STYLE
        self.cursor_style = 0
        #: First and last column between the left and right margins (DECSLRM); None without them.
        self.sides: tuple[int, int] | None = None
        self.margin_wrap = False
        #: The VT level that DECSCL selected.
        self.level = 4
        #: Whether DECCARA and DECRARA change a rectangle, or the text from one position to another (DECSACE).
        self.rectangular = False
        #: Whether a cell may be protected from erasure.
        self.protection_used = False
        #: Colours that the far end set, and modes that it saved (XTSAVE).
        self.colours: Colours = {}
        self.saved_modes: dict[int, bool] = {}
        self.grid = Grid(self.columns, self.lines, DEFAULT_STYLE)
        #: The main screen while the alternate screen is shown.
        self.main: Grid | None = None
        self.saved: dict[bool, SavedCursor] = {}

    def soft_reset(self) -> None:
        """Reset modes, attributes and the protection of cells; keep the cells (DECSTR)."""
        if self.protection_used:
            self._unprotect()
        off = {modes.IRM, modes.DECOM, modes.DECCKM, modes.DECNKM, modes.DECLRMM, modes.REVERSE_WRAP}
        self.mode = (self.mode - off) | modes.DEFAULT
        self.ensure_hbounds()
        self.margins = self.sides = None
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

    @property
    def side_margins(self) -> tuple[int, int]:
        """The first and the last column between the margins."""
        return self.sides or (0, self.columns - 1)

    @property
    def column(self) -> int:
        """The column of the cursor, also with a pending wrap."""
        return min(self.cursor.x, self.columns - 1) - self.margin_wrap

    def plain(self, row: str) -> str:
        """Return the text of a row without trailing blanks."""
        return (row if row.isascii() else self.clusters.text(row)).rstrip(" ")

    @property
    def byte_cost(self) -> int:
        """The largest cost of a byte of text and of cheap control functions, which change one row or scroll."""
        return 50 + self.columns // 8 + self.lines // 32

    def charge(self, rows: int, columns: int) -> None:
        """Count the cost of changing some columns of some rows."""
        self.cost += rows * (_ROW_COST + columns)

    def pause(self) -> None:
        """Set the cost of the next pause."""
        self.pause_at = self.cost + STEP_COST

    @property
    def responds(self) -> bool:
        """Whether the queue of responses has room."""
        return len(self.responses) < _MAX_RESPONSES

    def write_process_input(self, data: str) -> None:
        """Queue a response for the far end; drop it if the queue is full."""
        if self.responds:
            self.responses.append(data.encode())

    def take_responses(self) -> list[bytes]:
        """Remove and return the queued responses."""
        responses, self.responses = self.responses, []
        return responses

    # Style, protection and saved cursor.

    def restyle(self, parameters: str) -> None:
        """Change the pen (SGR)."""
        change = self._style_changes.get((self.pen, parameters))
        if change is None:
            pen = self.styles.char(restyled(self.styles.value(self.pen), parameters))
            change = pen, self._blank(pen)
            if len(self._style_changes) >= _MAX_INTERNED:
                self._style_changes.clear()
            if len(parameters) <= _CACHED_PARAMETERS:
                self._style_changes[self.pen, parameters] = change
        self.pen, self.blank = change

    def _blank(self, pen: str) -> str:
        """Return the style of erased cells: the background colour and no other attribute (xterm)."""
        return self.styles.char(Style(bg=self.styles.value(pen).bg))

    def protect(self, protection: str) -> None:
        """Set the protection of cells that are drawn from now on (DECSCA, SPA, EPA)."""
        self.protection_used = True
        self.pen = self.styles.char(self.styles.value(self.pen)._replace(protection=protection))

    def unprotected(self, style: str) -> str:
        """Return a style without its protection."""
        return self.styles.char(self.styles.value(style)._replace(protection=""))

    def _unprotect(self) -> None:
        protected = [self.styles.char(style) for style in self.styles.values if style.protection]
        unprotected = {ord(style): self.unprotected(style) for style in protected}
        self._change_styles(lambda row: row.translate(unprotected))
        self.saved = {which: saved._replace(pen=self.unprotected(saved.pen)) for which, saved in self.saved.items()}
        self.protection_used = False

    def cursor_state(self) -> SavedCursor:
        """Return the state that DECSC saves."""
        x, charsets = self.cursor.x - self.margin_wrap, (self.g0_charset, self.g1_charset, self.charset)
        return SavedCursor(x, self.cursor.y, self.pen, *charsets, origin=modes.DECOM in self.mode)

    def save_cursor(self) -> None:
        """Save the cursor (DECSC)."""
        self.charge(1, 0)
        self.saved[self.alternate] = self.cursor_state()

    def restore_cursor(self) -> None:
        """Restore the saved cursor (DECRC)."""
        self.charge(1, 0)
        saved = self.saved.get(self.alternate, _HOME)
        self.mode = self.mode | {modes.DECOM} if saved.origin else self.mode - {modes.DECOM}
        self.g0_charset, self.g1_charset, self.charset = saved.g0, saved.g1, saved.charset
        self.pen, self.blank, self.cursor.y = saved.pen, self._blank(saved.pen), saved.y
        self.ensure_vbounds()
        self.cursor.x, self.margin_wrap = min(saved.x, self.columns), False
        if saved.origin and self.sides is not None:
            self.cursor.x = min(max(saved.x, self.sides[0]), self.sides[1])

    # Cursor, margins and tab stops.

    def ensure_hbounds(self) -> None:
        """Clear a pending wrap: the cursor is on the last column."""
        self.cursor.x, self.margin_wrap = self.column, False

    def begin_row(self, row: int) -> None:
        """Place the cursor in the first column of a row, regardless of margins."""
        self.cursor.x, self.cursor.y = 0, row

    def skip_lines(self, count: int) -> None:
        """Continue in the last row, after text with `count` line feeds that was not drawn: it has scrolled off."""
        self.begin_row(self.lines - 1)
        self.last = ""
        self.scrolled += count

    def is_between_sides(self) -> bool:
        """Return whether the cursor is between the left and right margins."""
        return self.sides is None or self.sides[0] <= self.column <= self.sides[1]

    def line_end(self) -> int:
        """Return the column before which text from the cursor on wraps: after the right margin, if that is ahead."""
        return self.sides[1] + 1 if self.sides is not None and self.column <= self.sides[1] else self.columns

    def carriage_return(self) -> None:
        """Move the cursor to the left margin, or to the first column if it is left of that (CR)."""
        if self.sides is None:
            self.cursor.x = 0
            return
        left = self.sides[0]
        self.cursor.x, self.margin_wrap = left if self.column >= left or modes.DECOM in self.mode else 0, False

    def cursor_forward(self, count: int | None = None) -> None:
        """Move the cursor forward, at most to the right margin if that is ahead (CUF)."""
        end = self.line_end()
        self.cursor.x, self.margin_wrap = min(self.column + (count or 1), end - 1), False

    def cursor_back(self, count: int | None = None) -> None:
        """Move the cursor back, at most to the left margin if the cursor is right of that (CUB, BS).

        With reverse wraparound (xterm) it continues in the row above, from the first row of the region in the last one.
        """
        wraps = {modes.REVERSE_WRAP, modes.DECAWM} <= self.mode
        count = (count or 1) - (wraps and (self.margin_wrap or self.cursor.x == self.columns))
        self.ensure_hbounds()
        (left, right), (top, bottom), x = self.side_margins, self.region, self.cursor.x
        first = left if x >= left else 0
        for _ in range(self.lines if wraps else 0):
            if count <= x - first:
                break
            count -= x - first + 1
            x, first = right, left
            self.cursor.y = {top: bottom, 0: self.lines - 1}.get(self.cursor.y, self.cursor.y - 1)
        self.cursor.x = max(x - count, first)

    def cursor_to_column(self, column: int | None = None) -> None:
        """Move the cursor to a column (CHA, HPA). In origin mode it counts from the left margin."""
        self.cursor.x, self.margin_wrap = self._addressed_column(column), False

    def _addressed_column(self, column: int | None) -> int:
        left, last = self.side_margins if modes.DECOM in self.mode else (0, self.columns - 1)
        return min(left + (column or 1) - 1, last)

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
        """Move the cursor to a position (CUP). In origin mode it counts from the margins, and they limit the cursor."""
        cursor, x, y = self.cursor, (column or 1) - 1, (line or 1) - 1
        last_row = self.lines - 1
        self.margin_wrap = False
        if modes.DECOM in self.mode:
            top, last_row = self.region
            y += top
            cursor.x = self._addressed_column(column)
        else:
            cursor.x = x if x < self.columns else self.columns - 1
        cursor.y = y if y < last_row else last_row

    def cursor_to_line(self, line: int | None = None) -> None:
        """Move the cursor to a row (VPA). In origin mode it counts from the top margin."""
        top, last = self.region if modes.DECOM in self.mode else (0, self.lines - 1)
        self.ensure_hbounds()
        self.cursor.y = min(top + (line or 1) - 1, last)

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        """Set the scrolling region and move the cursor home (DECSTBM). A region of one row is ignored."""
        first, last = max(1, top or 1) - 1, min(bottom or self.lines, self.lines) - 1
        if first < last:
            self.margins = None if (first, last) == (0, self.lines - 1) else Margins(first, last)
            self.cursor_position()

    def set_sides(self, left: int = 0, right: int = 0) -> None:
        """Set the left and right margins and move the cursor home (DECSLRM). Margins of one column are ignored."""
        first, last = max(1, left) - 1, min(right or self.columns, self.columns) - 1
        if first < last:
            self.sides = None if (first, last) == (0, self.columns - 1) else (first, last)
            self.cursor_position()

    def tab(self, count: int | None = None) -> None:
        """Move the cursor to the next tab stops, at most to the right margin if that is ahead (HT, CHT)."""
        last, number = self.line_end() - 1, count or 1
        if self.cursor.x < last:
            self.cost += 2 * len(self.tabstops)
            ahead = [stop for stop in self.tabstops if self.cursor.x < stop <= last]
            if number == 1:
                self.cursor.x = min(ahead, default=last)
            else:
                self.cursor.x = sorted(ahead)[number - 1] if number <= len(ahead) else last

    def back_tab(self, count: int | None = None) -> None:
        """Move the cursor back `count` tab stops (CBT)."""
        self.cursor.x, self.margin_wrap = self.column, False
        self.cost += 2 * len(self.tabstops)
        behind = sorted(stop for stop in self.tabstops if stop < self.cursor.x)
        self.cursor.x = behind[-(count or 1)] if (count or 1) <= len(behind) else 0

    def set_tab_stop(self) -> None:
        """Set a tab stop at the cursor (HTS). Keeps a pending wrap."""
        self.tabstops.add(self.column)

    def clear_tab_stop(self, how: int = 0) -> None:
        """Clear the tab stop at the cursor (0), or all of them (3) (TBC)."""
        if how == 0:
            self.tabstops.discard(self.column)
        elif how == 3:
            self.tabstops.clear()

    # Scrolling and lines.

    def index(self) -> None:
        """Move the cursor down; at the bottom margin, scroll up (IND, line feed)."""
        top, bottom = self.region
        if self.cursor.y == bottom:
            if self.sides is None or self.is_between_sides():
                self._scroll(top, bottom, 1)
        elif self.cursor.y < self.lines - 1:
            self.cursor.y += 1

    def reverse_index(self) -> None:
        """Move the cursor up; at the top margin, scroll down (RI)."""
        top, bottom = self.region
        if self.cursor.y == top:
            if self.is_between_sides():
                self._scroll(top, bottom, -1)
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    def scroll_up(self, count: int) -> None:
        """Scroll the region up, or down by a negative count (SU, SD)."""
        self._scroll(*self.region, count)

    def _scroll(self, top: int, bottom: int, count: int, *, to_history: bool = True) -> None:
        """Scroll rows between the margins up, or down by a negative count.

        Rows that leave the top of the main screen go to the history, also with a bottom margin (xterm).
        """
        self.charge(1, self.columns)
        if self.sides is not None:
            self.charge(bottom + 1 - top, self.sides[1] + 1 - self.sides[0])
            self.grid.scroll_columns(range(top, bottom + 1), self.sides[0], self.sides[1] + 1, count, self.blank)
        elif count < 0:
            self.grid.scroll_down(top, bottom + 1, -count, self.blank)
        else:
            gone = self.grid.scroll_up(top, bottom + 1, count, self.blank)
            if to_history and top == 0 and self.main is None:
                self._add_to_history(gone)

    def _add_to_history(self, rows: list[tuple[str, str]]) -> None:
        self.scrolled += len(rows)
        self.charge(len(rows), self.columns)
        self.history.extend((self.plain(text), styles.rstrip(DEFAULT_STYLE)) for text, styles in rows)

    def insert_lines(self, count: int | None = None) -> None:
        """Insert lines at the cursor (IL); a negative count deletes lines (DL). Outside the margins, do nothing."""
        top, bottom = self.region
        if top <= self.cursor.y <= bottom and self.is_between_sides():
            self._scroll(self.cursor.y, bottom, -(count or 1), to_history=False)
            self.carriage_return()

    def delete_lines(self, count: int | None = None) -> None:
        """Delete lines at the cursor (DL)."""
        self.insert_lines(-(count or 1))

    def shift_columns(self, x: int, count: int) -> None:
        """Insert columns at `x` in all rows between the margins, or delete them by a negative count."""
        top, bottom = self.region
        self.charge(bottom + 1 - top, self.columns)
        shift = self.grid.insert if count > 0 else self.grid.delete
        for y in range(top, bottom + 1):
            shift(y, x, self.side_margins[1] + 1, abs(count), self.blank)

    def edit_columns(self, count: int) -> None:
        """Insert columns at the cursor, or delete them by a negative count; nothing outside the margins (DECIC, DECDC)."""
        top, bottom = self.region
        self.ensure_hbounds()
        if top <= self.cursor.y <= bottom and self.is_between_sides():
            self.shift_columns(self.cursor.x, count)

    def back_index(self) -> None:
        """Move the cursor back; at the left margin, scroll right (DECBI)."""
        self.ensure_hbounds()
        if self.cursor.x == self.side_margins[0]:
            self.edit_columns(1)
        elif self.cursor.x:
            self.cursor.x -= 1

    def forward_index(self) -> None:
        """Move the cursor forward; at the right margin, scroll left (DECFI)."""
        self.ensure_hbounds()
        top, bottom = self.region
        if self.cursor.x == self.side_margins[1]:
            if top <= self.cursor.y <= bottom:
                self.shift_columns(self.side_margins[0], -1)
        elif self.cursor.x < self.columns - 1:
            self.cursor.x += 1

    # Cells.

    def insert_characters(self, count: int | None = None) -> None:
        """Insert blank cells at the cursor (ICH)."""
        self.ensure_hbounds()
        if self.is_between_sides():
            self.grid.insert(self.cursor.y, self.cursor.x, self.line_end(), count or 1, self.blank)

    def delete_characters(self, count: int | None = None) -> None:
        """Delete cells at the cursor (DCH)."""
        self.ensure_hbounds()
        if self.is_between_sides():
            self.grid.delete(self.cursor.y, self.cursor.x, self.line_end(), count or 1, self.blank)

    def erase_characters(self, count: int | None = None) -> None:
        """Erase cells from the cursor on (ECH)."""
        self.ensure_hbounds()
        x = self.cursor.x
        self.erase(self.cursor.y, x, min(x + (count or 1), self.columns))

    def erase(self, y: int, begin: int, end: int, kept: str = "guarded") -> None:
        """Erase cells of a row, except those with the protection `kept`."""
        if not self.protection_used:
            self.grid.erase(y, begin, end, self.blank)
            return
        styles = set(self.grid.styles[y][begin:end])
        self.charge(1, 8 * self.columns)
        protected = {style for style in styles if self.styles.value(style).protection == kept}
        self.grid.erase_except(y, begin, end, protected, self.blank)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """Erase the row from the cursor on (0), up to the cursor (1), or entirely (2) (EL; `private`: DECSEL)."""
        self.ensure_hbounds()
        if 0 <= how <= 2:
            begin, end = self.cursor.x if how == 0 else 0, self.cursor.x + 1 if how == 1 else self.columns
            self.erase(self.cursor.y, begin, end, "selective" if private else "guarded")

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        """Erase the screen from the cursor on (0), up to it (1), or entirely (2) (ED; `private`: DECSED).

        3 clears the scrollback (xterm).
        """
        private = bool(kwargs.get("private"))
        if how == 3 and not private:
            self.history.clear()
            return
        y = self.cursor.y
        begin, end = {0: (y + 1, self.lines), 1: (0, y), 2: (0, self.lines)}.get(how, (0, 0))
        if self.protection_used:
            self.charge(end - begin, self.columns)
            for row in range(begin, end):
                self.erase(row, 0, self.columns, "selective" if private else "guarded")
        else:
            self.cost += max(0, end - begin)
            self.grid.erase_rows(begin, end, self.blank)
        if how in (0, 1):
            self.erase_in_line(how, private)

    def alignment_display(self) -> None:
        """Fill the screen with E, clear the margins, and move the cursor home (DECALN)."""
        self.margins = self.sides = None
        self.cursor_position()
        self.cost += self.lines
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
        """Set or reset modes. Unknown public modes are ignored, because their number could equal that of a private mode."""
        for number in numbers:
            if private or number in modes.PUBLIC:
                self._switch(modes.private(number) if private else number, on=on)

    def _switch(self, mode: int, *, on: bool) -> None:
        if mode in modes.ALTERNATE:
            self._show_screen(alternate=on, with_cursor=mode == modes.ALTERNATE_AND_CURSOR)
        elif mode == modes.SAVED_CURSOR:
            self.save_cursor() if on else self.restore_cursor()
        elif mode == modes.DECCOLM:  # the far end does not change the size
            self.margins = self.sides = None
            self.cursor_position()
            self.erase_in_display(2)
        elif mode in modes.KNOWN:
            if mode in modes.MOUSE:
                self.mode -= modes.MOUSE
            elif mode == modes.DECLRMM:
                if self.level < 4:
                    return
                self.ensure_hbounds()
                self.sides = None
            (self.mode.add if on else self.mode.discard)(mode)
            self.cursor.hidden = modes.DECTCEM not in self.mode
            if mode == modes.DECOM:
                self.cursor_position()

    def _show_screen(self, *, alternate: bool, with_cursor: bool) -> None:
        """Switch screens. The alternate screen starts blank, as in tmux; xterm clears it for 1047 and 1049."""
        if alternate and self.main is None:
            if with_cursor:
                self.save_cursor()
            self.cost += self.lines
            self.main, self.grid = self.grid, Grid(self.columns, self.lines, self.blank)
        elif not alternate:
            if self.main is not None:
                self.grid, self.main = self.main, None
            if with_cursor and False in self.saved:
                self.restore_cursor()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size as xterm does, and tmux without reflow. Clears margins; new columns get default tab stops."""
        lines, columns = lines or self.lines, columns or self.columns
        if (lines, columns) == (self.lines, self.columns):
            return
        self.ensure_hbounds()
        before, self.lines, self.columns = self.columns, lines, columns
        self.history = deque(self.history, min(self.scrollback, _SCROLLBACK_CELLS // columns))
        if self.main is not None:
            self._resize_grid(self.main, False, self.saved[False].y if False in self.saved else self.cursor.y)
        elif True in self.saved:
            saved = self.saved[True]
            self.saved[True] = saved._replace(x=min(saved.x, before - 1, columns - 1), y=min(saved.y, lines - 1))
        self.cursor.y -= self._resize_grid(self.grid, self.alternate, self.cursor.y)
        self.tabstops.update(range(-(-before // 8) * 8, columns, 8))
        self.tabstops = {stop for stop in self.tabstops if stop < columns}
        self.margins = self.sides = None
        self.ensure_vbounds()
        self.ensure_hbounds()

    def _resize_grid(self, grid: Grid, alternate: bool, row: int) -> int:
        """Resize one screen, keeping `row` on it. Returns the number of rows removed at the top."""
        before = grid.cols
        gone = grid.resize(self.columns, self.lines, row, DEFAULT_STYLE)
        if not alternate:
            self._add_to_history(gone)
        if alternate in self.saved:
            saved = self.saved[alternate]
            x, y = min(saved.x, before - 1, self.columns - 1), min(max(0, saved.y - len(gone)), self.lines - 1)
            self.saved[alternate] = saved._replace(x=x, y=y)
        return len(gone)

    # Printable text.

    def draw(self, data: str) -> None:
        """Draw printable text at the cursor. Zero-width characters join the cell before the cursor.

        Text whose characters all take whole cells is written in slices of a row; other text character by character.
        """
        if (self.g1_charset if self.charset else self.g0_charset) is VT100_MAP:
            data = data.translate(SPECIAL_GRAPHICS)
        ascii_only = data.isascii()
        cells = data if ascii_only else "".join(map(_cells_of, data))
        if ascii_only or (_SPECIAL not in cells and self._is_join_free()):
            cursor, end = self.cursor, self.cursor.x + len(cells)
            if end <= self.columns and self.sides is None and modes.IRM not in self.mode:
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
        """Return whether the cell before the cursor cannot be joined, and a wide character fits the screen."""
        x = self.cursor.x
        before = self.grid.text[self.cursor.y][x - 1] if x else BLANK
        return STUB < before < FIRST_CLUSTER and self.columns > 1

    def _draw_cells(self, cells: str) -> None:
        """Draw cells with wrapping. A wide character that does not fit the last column wraps as a whole."""
        cursor, begin = self.cursor, 0
        limit = self.columns
        while begin < len(cells):
            if self.sides is not None:
                limit = self.line_end()
            if cursor.x == limit or (cursor.x == limit - 1 and cells.startswith(STUB, begin + 1)):
                if modes.DECAWM in self.mode:
                    self._wrap(len(cells) - begin)
                    limit = limit if self.sides is None else self.line_end()
                else:  # without autowrap each character overwrites the last column: only the final one remains
                    cursor.x, begin = limit - 1, len(cells) - 1
            end = begin + limit - cursor.x
            part = cells[begin : end - cells.startswith(STUB, end)]
            if modes.IRM in self.mode:
                self.charge(1, self.columns)
                self.grid.insert(cursor.y, cursor.x, limit, len(part), self.blank)
            self.grid.put(cursor.y, cursor.x, part, self.pen)
            cursor.x += len(part)
            self.margin_wrap = cursor.x == limit < self.columns
            begin += len(part)

    def _wrap(self, following: int = 1) -> None:
        """Move the cursor to the next line. Between side margins, scroll at once for all lines that `following` cells fill."""
        (top, bottom), (left, right) = self.region, self.side_margins
        if self.sides is not None and self.cursor.y == bottom and self.is_between_sides():
            count = min(-(-following // (right + 1 - left)), bottom + 1 - top)
            self._scroll(top, bottom, count)
            self.cursor.y -= count - 1
        else:
            self.index()
        self.cursor.x, self.margin_wrap = left, False

    def _draw_char(self, char: str) -> None:
        columns = width(char)
        if columns < 0 or self._join(char) or not 0 < columns <= self.columns:
            return
        limit = self.line_end()
        if self.cursor.x + columns > limit:
            if modes.DECAWM in self.mode:
                self._wrap()
                limit = self.line_end()
            elif columns == 1:
                self.cursor.x = limit - 1
            else:
                return
        y, x = self.cursor.y, self.cursor.x
        if modes.IRM in self.mode:
            self.charge(1, self.columns)
            self.grid.insert(y, x, limit, columns, self.blank)
        self.grid.put(y, x, self.clusters.cell(char) + STUB * (columns - 1), self.pen)
        self.cursor.x += columns
        self.margin_wrap = self.cursor.x == limit < self.columns

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
        used = pens.union(*(row for grid in self._grids() for row in grid.styles), *(styles for _, styles in self.history))
        renamed = self.styles.forget(used)
        self._change_styles(lambda row: row.translate(renamed))
        self.pen, self.blank = self.pen.translate(renamed), self.blank.translate(renamed)
        self.saved = {which: saved._replace(pen=saved.pen.translate(renamed)) for which, saved in self.saved.items()}
        self._style_changes.clear()
        self._styles_limit = max(_MAX_INTERNED, 2 * len(self.styles))

    def _change_styles(self, change: Callable[[str], str]) -> None:
        """Replace the styles of all rows by `change(styles)`."""
        self.charge(2 * self.lines + len(self.history), 4 * self.columns)
        for grid in self._grids():
            grid.styles = [change(row) for row in grid.styles]
        self.history = deque(((text, change(styles)) for text, styles in self.history), self.history.maxlen)

    def _grids(self) -> Iterator[Grid]:
        yield self.grid
        if self.main is not None:
            yield self.main

    def copy(self) -> Self:
        self.cost += len(self.styles) + len(self.clusters.table) + len(self.history) + len(self.tabstops) + 4 * self.lines
        other = copy.copy(self)
        other.styles, other.clusters, other._style_changes = self.styles.copy(), self.clusters.copy(), {}
        other.history, other.titles, other.responses = self.history.copy(), self.titles.copy(), self.responses.copy()
        other.mode, other.tabstops, other.cursor = self.mode.copy(), self.tabstops.copy(), copy.copy(self.cursor)
        other.grid, other.main = self.grid.copy(), self.main.copy() if self.main is not None else None
        other.saved, other.saved_modes, other.colours = self.saved.copy(), self.saved_modes.copy(), self.colours.copy()
        return other


@lru_cache(maxsize=4096)
def _cells_of(char: str) -> str:
    if char >= FIRST_CLUSTER:
        return _SPECIAL
    return {1: char, 2: char + STUB}.get(width(char), _SPECIAL)

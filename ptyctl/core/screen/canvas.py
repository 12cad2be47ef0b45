"""The state of a terminal: pyte's cursor, margins, modes, tab stops and character sets, with cells of our own.

pyte's cells are a dict of tuples for each row: 800 KB a screen and 1 MB/s. Ours are strings (`Grid`). An erased cell has the
background's colour and no other attribute, as in xterm.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from pyte.charsets import LAT1_MAP, VT100_MAP

from . import modes
from .cells import Clusters
from .grid import Grid
from .interning import Interned
from .motion import Motion
from .style import PLAIN, Style, restyled

#: The character that stands for `PLAIN` in a row's styles.
DEFAULT_STYLE = "\0"
#: How many styles, or steps from one to another, may gather before those no longer in use are forgotten.
_MAX_STYLES = 4096
_MAX_ANSWERS = 64


class SavedCursor(NamedTuple):
    """What DECSC saves (VT510 manual); there is one for each screen."""

    x: int
    y: int
    pen: str
    g0: str
    g1: str
    charset: int
    origin: bool


HOME = SavedCursor(0, 0, DEFAULT_STYLE, LAT1_MAP, VT100_MAP, 0, origin=False)


class Canvas(Motion):
    def __init__(self, columns: int, lines: int, scrollback: int) -> None:
        self.styles: Interned[Style] = Interned(0, 0x10FFFF, DEFAULT_STYLE)
        self.styles.char(PLAIN)
        self._steps: dict[tuple[str, str], tuple[str, str]] = {}
        self.clusters = Clusters()
        self._styles_limit = self._clusters_limit = _MAX_STYLES
        self.scrollback = scrollback
        self.history: deque[str] = deque(maxlen=scrollback)
        self.title = ""
        self.titles: list[str] = []
        self.answers: list[bytes] = []
        #: The character that REP would repeat.
        self.last = ""
        super().__init__(columns, lines)

    def reset(self) -> None:
        """RIS. The title stays, as in xterm, and so do the lines that have scrolled off."""
        title = self.title
        super().reset()
        self.title = title
        self.pen = self.blank = DEFAULT_STYLE
        self.cursor_style = 0
        self.grid = Grid(self.columns, self.lines, DEFAULT_STYLE)
        #: The main screen while the alternate one is shown.
        self.main: Grid | None = None
        self.saved: dict[bool, SavedCursor] = {}
        #: Whether the whole picture is another one: resized, or the other screen.
        self.repainted = True

    def soft_reset(self) -> None:
        """DECSTR: modes and attributes, not the cells."""
        self.mode = (self.mode - {modes.IRM, modes.DECOM, modes.DECCKM, modes.DECNKM}) | modes.DEFAULT
        self.margins = None
        self.cursor.hidden = False
        self.pen = self.blank = DEFAULT_STYLE
        self.g0_charset, self.g1_charset, self.charset = LAT1_MAP, VT100_MAP, 0
        self.saved.pop(self.alternate, None)

    @property
    def alternate(self) -> bool:
        return self.main is not None

    def plain(self, row: str) -> str:
        """What a row says, without its trailing blanks."""
        return (row if row.isascii() else self.clusters.text(row)).rstrip(" ")

    # What is drawn from now on.

    def restyle(self, parameters: str) -> None:
        """SGR."""
        step = self._steps.get((self.pen, parameters))
        if step is None:
            pen = self.styles.char(restyled(self.styles.value(self.pen), parameters))
            step = pen, self._blank(pen)
            if len(self._steps) >= _MAX_STYLES:
                self._steps.clear()
            self._steps[self.pen, parameters] = step
        self.pen, self.blank = step

    def _blank(self, pen: str) -> str:
        return self.styles.char(Style(bg=self.styles.value(pen).bg))

    def save_cursor(self) -> None:
        charsets = self.g0_charset, self.g1_charset, self.charset
        origin = modes.DECOM in self.mode
        self.saved[self.alternate] = SavedCursor(self.cursor.x, self.cursor.y, self.pen, *charsets, origin=origin)

    def restore_cursor(self) -> None:
        saved = self.saved.get(self.alternate, HOME)
        self.mode = self.mode | {modes.DECOM} if saved.origin else self.mode - {modes.DECOM}
        self.g0_charset, self.g1_charset, self.charset = saved.g0, saved.g1, saved.charset
        self.pen, self.blank, self.cursor.y = saved.pen, self._blank(saved.pen), saved.y
        self.ensure_vbounds()
        self.cursor.x = min(saved.x, self.columns)

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
        x = self.cursor.x
        span = {0: (x, self.columns), 1: (0, x + 1), 2: (0, self.columns)}.get(how)
        if span is not None:
            self.grid.erase(self.cursor.y, *span, self.blank)

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
        for number in numbers:
            self._switch(modes.private(number) if kwargs.get("private") else number, on=True)

    def reset_mode(self, *numbers: int, **kwargs: Any) -> None:
        for number in numbers:
            self._switch(modes.private(number) if kwargs.get("private") else number, on=False)

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

    def write_process_input(self, data: str) -> None:
        if len(self.answers) < _MAX_ANSWERS:
            self.answers.append(data.encode())

    def tidy(self) -> None:
        """Forgets styles and clusters that nothing on the screens has any more, when many have gathered."""
        if len(self.styles) > self._styles_limit:
            pens = {DEFAULT_STYLE, self.pen, self.blank, *(saved.pen for saved in self.saved.values())}
            renamed = self.styles.forget(pens.union(*(row for grid in self._grids() for row in grid.styles)))
            for grid in self._grids():
                grid.styles = [row.translate(renamed) for row in grid.styles]
            self.pen, self.blank = self.pen.translate(renamed), self.blank.translate(renamed)
            self.saved = {which: saved._replace(pen=saved.pen.translate(renamed)) for which, saved in self.saved.items()}
            self._steps.clear()
            self._styles_limit = max(_MAX_STYLES, 2 * len(self.styles))
            self.repainted = True
        if len(self.clusters.table) > self._clusters_limit:
            renamed = self.clusters.table.forget(set().union(*(row for grid in self._grids() for row in grid.text)))
            for grid in self._grids():
                grid.text = [row.translate(renamed) for row in grid.text]
            self._clusters_limit = max(_MAX_STYLES, 2 * len(self.clusters.table))
            self.repainted = True

    def _grids(self) -> Iterator[Grid]:
        yield self.grid
        if self.main is not None:
            yield self.main

    def copy(self) -> Self:
        other = copy.copy(self)
        other.styles, other.clusters, other._steps = self.styles.copy(), self.clusters.copy(), {}
        other.history, other.titles, other.answers = self.history.copy(), self.titles.copy(), self.answers.copy()
        other.mode, other.tabstops, other.cursor = self.mode.copy(), self.tabstops.copy(), copy.copy(self.cursor)
        other.grid, other.main = self.grid.copy(), self.main.copy() if self.main is not None else None
        other.saved = self.saved.copy()
        return other

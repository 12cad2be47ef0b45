"""The state of a terminal: pyte's cursor, margins, modes, tab stops and character sets, with cells of our own.

pyte's cells are a dict of tuples for each row: 800 KB a screen and 1 MB/s. Ours are strings (`Grid`).
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Self

from pyte.charsets import LAT1_MAP

from . import modes
from .cells import Clusters
from .grid import Grid
from .interning import Interned
from .motion import Motion
from .style import PLAIN, Style, restyled

#: The character that stands for `PLAIN` in a row's styles.
DEFAULT_STYLE = "\0"
#: How many styles, steps from one to another, or clusters may gather before those no longer in use are forgotten.
_MAX_INTERNED = 4096
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


HOME = SavedCursor(0, 0, DEFAULT_STYLE, LAT1_MAP, LAT1_MAP, 0, origin=False)


class State(Motion):
    def __init__(self, columns: int, lines: int, scrollback: int) -> None:
        self.styles: Interned[Style] = Interned(0, 0x10FFFF, DEFAULT_STYLE)
        self.styles.char(PLAIN)
        self._steps: dict[tuple[str, str], tuple[str, str]] = {}
        self.clusters = Clusters()
        self._styles_limit = self._clusters_limit = _MAX_INTERNED
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
        self.g1_charset = LAT1_MAP  # as in xterm; pyte's is the line drawing, as on Linux's console
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
        self.g0_charset, self.g1_charset, self.charset = LAT1_MAP, LAT1_MAP, 0
        self.saved.pop(self.alternate, None)

    @property
    def alternate(self) -> bool:
        return self.main is not None

    def plain(self, row: str) -> str:
        """What a row says, without its trailing blanks."""
        return (row if row.isascii() else self.clusters.text(row)).rstrip(" ")

    def restyle(self, parameters: str) -> None:
        """SGR."""
        step = self._steps.get((self.pen, parameters))
        if step is None:
            pen = self.styles.char(restyled(self.styles.value(self.pen), parameters))
            step = pen, self._blank(pen)
            if len(self._steps) >= _MAX_INTERNED:
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

    def write_process_input(self, data: str) -> None:
        if len(self.answers) < _MAX_ANSWERS:
            self.answers.append(data.encode())

    def tidy(self) -> None:
        """Forgets styles and clusters that nothing on the screens has any more, when many have gathered."""
        if len(self.styles) > self._styles_limit:
            self._forget_styles()
        if len(self.clusters.table) > self._clusters_limit:
            renamed = self.clusters.forget(set().union(*(row for grid in self._grids() for row in grid.text)))
            for grid in self._grids():
                grid.text = [row.translate(renamed) for row in grid.text]
            self._clusters_limit = max(_MAX_INTERNED, 2 * len(self.clusters.table))
            self.repainted = True

    def _forget_styles(self) -> None:
        pens = {DEFAULT_STYLE, self.pen, self.blank, *(saved.pen for saved in self.saved.values())}
        renamed = self.styles.forget(pens.union(*(row for grid in self._grids() for row in grid.styles)))
        for grid in self._grids():
            grid.styles = [row.translate(renamed) for row in grid.styles]
        self.pen, self.blank = self.pen.translate(renamed), self.blank.translate(renamed)
        self.saved = {which: saved._replace(pen=saved.pen.translate(renamed)) for which, saved in self.saved.items()}
        self._steps.clear()
        self._styles_limit = max(_MAX_INTERNED, 2 * len(self.styles))
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

"""Bytes that draw a screen on another terminal: a full serialization, and incremental updates of a view.

`serialize` makes a fresh terminal of the same size show the screen and continue from its state. `ScreenView` keeps a terminal
of any size up to date with `ScreenFrame`s: it draws cells and never forwards bytes of the far end, so nothing that could
attack the viewer's terminal passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from pyte.charsets import LAT1_MAP

from . import modes
from .attributes import PROTECT, sgr
from .cells import BLANK, FIRST_CLUSTER, STUB, Grid, split_columns
from .colours import colour_sequences
from .emulator import DEFAULT_STYLE, Emulator, SavedCursor

_STYLE_RUNS = re.compile(r"(.)\1*", re.DOTALL)
_NOT_SINGLE = re.compile(f"[\0{FIRST_CLUSTER}-\U0010ffff]")  # wide characters and clusters
_RESET_STYLE = "\x1b[m"
_ERASE_TO_END = "\x1b[m\x1b[K"
_ERASE_ROW = "\x1b[m\x1b[2K"

#: Modes that change the bytes of keys and of the mouse and do not change cells.
_INPUT_MODES = modes.MOUSE | {modes.DECCKM, modes.DECNKM, *map(modes.private, (1004, 1005, 1006, 1007, 1015, 2004))}


#: Modes that are set at the end of a serialization. Modes that move the cursor are set before the cursor is placed.
_SET = (modes.KEPT | {modes.REVERSE_WRAP}) - {modes.DECNKM}

Paint = Callable[[Emulator, str], str]


def serialize(emulator: Emulator, scrollback: int = 0) -> bytes:
    """Return bytes that bring a fresh terminal of the same size to the emulator's state.

    Covers both screens, cursors, the cursor saved by DECSC, style, margins, modes, tab stops, character sets and titles. The
    character that REP would repeat is not restored. `scrollback` is the number of lines above the screen that are drawn too.
    """
    return "".join([*_draw_scrollback(emulator, scrollback), *_serialize(emulator)]).encode("utf-8")


def _draw_scrollback(emulator: Emulator, limit: int) -> Iterator[str]:
    """Draw the newest lines of the scrollback, and scroll all of them off the screen."""
    skipped = max(len(emulator.history) - limit, 0)
    for text, styles in islice(emulator.history, skipped, None):
        cells = list(text) if text.isascii() else split_columns(text)
        cells += BLANK * (len(styles) - len(cells))
        for run in _STYLE_RUNS.finditer(styles.ljust(len(cells), DEFAULT_STYLE)):
            yield _sgr(emulator, run[1]) + "".join(cells[run.start() : run.end()])
        yield f"{_RESET_STYLE}\r\n"
    if skipped < len(emulator.history):
        yield "\r\n" * (emulator.lines - 1) + "\x1b[H"


def _serialize(emulator: Emulator) -> Iterator[str]:
    if emulator.level != 4:
        yield f'\x1b[6{emulator.level};1"p'
    if emulator.main is None and True in emulator.saved:  # the cursor saved on the alternate screen
        blank = Grid(emulator.columns, emulator.lines, DEFAULT_STYLE)
        yield "\x1b[?47h"
        yield from _place_cursor(emulator, blank, emulator.saved[True])
        yield "\x1b7"
        yield from _reset_cursor(emulator, emulator.saved[True])
        yield "\x1b[?47l\x1b[H"
    yield from _draw_grid(emulator, emulator.main or emulator.grid)
    if emulator.main is not None:
        saved = emulator.saved.get(False)
        if saved is not None:
            yield from _place_cursor(emulator, emulator.main, saved)
        yield f"\x1b[?{1049 if saved is not None else 47}h"
        yield from _reset_cursor(emulator, saved)
        yield "\x1b[2J"  # switching blanked the screen with the saved background
        yield from _draw_grid(emulator, emulator.grid)
    saved = emulator.saved.get(emulator.alternate)
    if saved is not None:
        yield from _place_cursor(emulator, emulator.grid, saved)
        yield "\x1b7"
        yield from _reset_cursor(emulator, saved)
    yield from colour_sequences(emulator.colours)
    yield from _save_modes(emulator)
    yield from _set_tab_stops(emulator)
    yield from _set_titles(emulator)
    if emulator.margins is not None:
        yield f"\x1b[{emulator.margins.top + 1};{emulator.margins.bottom + 1}r"
    if modes.DECLRMM in emulator.mode:
        yield "\x1b[?69h"
    if emulator.sides is not None:
        yield f"\x1b[{emulator.sides[0] + 1};{emulator.sides[1] + 1}s"
    yield from _place_cursor(emulator, emulator.grid, emulator.cursor_state(), current=True)
    yield from _set_modes(emulator)


def _draw_grid(emulator: Emulator, grid: Grid) -> Iterator[str]:
    for y, (row, styles) in enumerate(zip(grid.text, grid.styles, strict=True)):
        if _NOT_SINGLE.search(row):  # a character drawn after a wide character or a cluster could join it
            yield from _single_cells(emulator, row, styles, f"\x1b[{y + 1};", "H", _paint)
        elif length := _used_columns(row, styles):
            yield f"\x1b[{y + 1}H"
            yield from _styled_runs(emulator, row, styles, length, _paint)
    yield _RESET_STYLE + (PROTECT[""] if emulator.protection_used else "")


def _single_cells(emulator: Emulator, cells: str, styles: str, before: str, after: str, paint: Paint) -> Iterator[str]:
    """Draw each cell at its position, from right to left. The address of a column is between `before` and `after`."""
    for x in range(len(cells) - 1, -1, -1):
        if cells[x] != STUB and (cells[x], styles[x]) != (BLANK, DEFAULT_STYLE):
            yield f"{before}{x + 1}{after}{paint(emulator, styles[x])}{emulator.clusters.text(cells[x])}"


def _place_cursor(emulator: Emulator, grid: Grid, at: SavedCursor, *, current: bool = False) -> Iterator[str]:
    """Move the cursor and set the state that DECSC saves. A pending wrap is restored by redrawing the last character.

    `current`: it is the cursor itself, whose position counts from the margins in origin mode.
    """
    top, left = (emulator.region[0], emulator.side_margins[0]) if current and at.origin else (0, 0)
    if at.origin:
        yield "\x1b[?6h"
    x = min(at.x, emulator.columns - 1)
    if at.x < emulator.columns and not (current and emulator.margin_wrap):
        yield f"\x1b[{at.y - top + 1};{x - left + 1}H"
    else:
        x -= grid.text[at.y][x] == STUB
        cell = _paint(emulator, grid.styles[at.y][x]) + emulator.clusters.text(grid.text[at.y][x])
        yield f"\x1b[{at.y - top + 1};{x - left + 1}H{cell}"
    yield _paint(emulator, at.pen)
    if at.g0 is not LAT1_MAP:
        yield "\x1b(0"
    if at.g1 is not LAT1_MAP:
        yield "\x1b)0"
    if at.charset:
        yield "\x0e"


def _reset_cursor(emulator: Emulator, saved: SavedCursor | None) -> Iterator[str]:
    if saved is not None:
        yield "\x1b[m\x1b(B\x1b)B\x0f\x1b[?6l" + (PROTECT[""] if emulator.protection_used else "")


def _save_modes(emulator: Emulator) -> Iterator[str]:
    """Save modes, and set them back to their initial state."""
    for mode, on in emulator.saved_modes.items():
        number, initial = modes.number(mode), "h" if mode in modes.DEFAULT else "l"
        yield f"\x1b[?{number}{'h' if on else 'l'}\x1b[?{number}s\x1b[?{number}{initial}"


def _set_tab_stops(emulator: Emulator) -> Iterator[str]:
    if emulator.tabstops != set(range(8, emulator.columns, 8)):
        yield "\x1b[3g" + "".join(f"\x1b[;{stop + 1}H\x1bH" for stop in sorted(emulator.tabstops))


def _set_titles(emulator: Emulator) -> Iterator[str]:
    for title in emulator.titles:
        yield f"\x1b]2;{title}\x1b\\\x1b[22;2t"
    if emulator.title or emulator.titles:
        yield f"\x1b]2;{emulator.title}\x1b\\"


def _set_modes(emulator: Emulator) -> Iterator[str]:
    """Set all modes except origin mode, which would move the cursor."""
    if emulator.cursor_style:
        yield f"\x1b[{emulator.cursor_style} q"
    if emulator.rectangular:
        yield "\x1b[2*x"
    if emulator.checksum_flags:
        yield f"\x1b[{emulator.checksum_flags}#y"
    yield from (f"\x1b[{mode}h" for mode in sorted(modes.PUBLIC & emulator.mode))
    yield from (f"\x1b[?{modes.number(mode)}l" for mode in sorted(modes.DEFAULT - emulator.mode))
    yield from (f"\x1b[?{modes.number(mode)}h" for mode in sorted(_SET & emulator.mode))
    if modes.DECNKM in emulator.mode:
        yield "\x1b="


@dataclass(frozen=True, slots=True)
class ScreenFrame:
    """The part of a screen that a terminal of a given size shows.

    Each row is a string that draws itself from the first column. `cursor` is (row, column), 0-based, or None while hidden.
    `input_modes` are numbers of DEC private modes.
    """

    rows: tuple[str, ...]
    cursor: tuple[int, int] | None
    cursor_style: int
    title: str
    reverse: bool
    input_modes: frozenset[int]


def render_frame(emulator: Emulator, cols: int, rows: int) -> ScreenFrame:
    """Return the part of that size that contains the cursor, aligned to the top and left of the screen where possible."""
    x, y = emulator.column, emulator.cursor.y
    top, left = max(0, y - rows + 1), max(0, x - cols + 1)
    visible = range(top, min(top + rows, emulator.lines))
    return ScreenFrame(
        rows=tuple(_frame_row(emulator, number, left, cols) for number in visible) + (_ERASE_ROW,) * (rows - len(visible)),
        cursor=None if emulator.cursor.hidden else (y - top, x - left),
        cursor_style=int(emulator.cursor_style or 0),
        title="".join(filter(str.isprintable, emulator.title)),
        reverse=modes.DECSCNM in emulator.mode,
        input_modes=frozenset(map(modes.number, _INPUT_MODES & emulator.mode)),
    )


class ScreenView:
    """State of a terminal that displays `ScreenFrame`s. Draws only the changes since the last frame."""

    def __init__(self) -> None:
        self._rows: list[str] = []
        self._title: str | None = None
        self._cursor_style = 0
        self._reverse = False
        self._input_modes: frozenset[int] = frozenset()

    def forget(self) -> None:
        """Redraw every row in the next `draw`; call it after the terminal was resized."""
        self._rows = []

    def draw(self, frame: ScreenFrame, status: str | None = None, *, takes_input: bool = False) -> bytes:
        """Return bytes that make the terminal show `frame` and, in the row below it, `status`.

        `takes_input`: whether keys go to the far end. Without it the input modes of the frame are not set, so that the mouse
        selects text as usual.
        """
        wanted = [*frame.rows, *([status] if status is not None else [])]
        changed = [y for y, row in enumerate(wanted) if self._rows[y : y + 1] != [row]]
        parts = [f"\x1b[{y + 1}H{wanted[y]}" for y in changed]
        if changed:
            parts = ["\x1b[?25l", _RESET_STYLE, *parts, _RESET_STYLE]
        self._rows = wanted
        parts.append(self._update_settings(frame, frame.input_modes if takes_input else frozenset()))
        if frame.cursor is not None:
            parts.append(f"\x1b[{frame.cursor[0] + 1};{frame.cursor[1] + 1}H\x1b[?25h")
        else:
            parts.append("\x1b[?25l")
        return "".join(parts).encode()

    def leave(self) -> bytes:
        """Return bytes that undo the modes and styles that were set."""
        off = "".join(f"\x1b[?{number}l" for number in sorted(self._input_modes))
        reverse = "\x1b[?5l" if self._reverse else ""
        style = "\x1b[ q" if self._cursor_style else ""
        return f"{_RESET_STYLE}{off}{reverse}{style}\x1b[?25h".encode()

    def _update_settings(self, frame: ScreenFrame, input_modes: frozenset[int]) -> str:
        parts = [f"\x1b[?{number}l" for number in sorted(self._input_modes - input_modes)]
        parts += [f"\x1b[?{number}h" for number in sorted(input_modes - self._input_modes)]
        if frame.reverse != self._reverse:
            parts.append("\x1b[?5h" if frame.reverse else "\x1b[?5l")
        if frame.cursor_style != self._cursor_style:
            parts.append(f"\x1b[{frame.cursor_style or ''} q")
        if frame.title != self._title:
            parts.append(f"\x1b]2;{frame.title}\x1b\\")
        self._input_modes, self._reverse = input_modes, frame.reverse
        self._cursor_style, self._title = frame.cursor_style, frame.title
        return "".join(parts)


def _frame_row(emulator: Emulator, y: int, left: int, cols: int) -> str:
    text, styles = emulator.grid.text[y], emulator.grid.styles[y]
    end = min(left + cols, len(text))
    cells = text[left:end]
    if cells.startswith(STUB):  # a wide character cut in half becomes a blank
        cells = BLANK + cells[1:]
    if text[end : end + 1] == STUB:
        cells = cells[:-1] + BLANK
    styles = styles[left:end]
    if _NOT_SINGLE.search(cells):  # a terminal with other character widths then spoils one cell only
        return _ERASE_ROW + "".join(_single_cells(emulator, cells, styles, "\x1b[", "G", _sgr))
    length = _used_columns(cells, styles)
    return "".join(_styled_runs(emulator, cells, styles, length, _sgr)) + (_ERASE_TO_END if length < cols else "")


def _used_columns(cells: str, styles: str) -> int:
    return max(len(cells.rstrip(BLANK)), len(styles.rstrip(DEFAULT_STYLE)))


def _styled_runs(emulator: Emulator, cells: str, styles: str, length: int, paint: Paint) -> Iterator[str]:
    for run in _STYLE_RUNS.finditer(styles, 0, length):
        yield paint(emulator, run[1]) + cells[run.start() : run.end()]


def _sgr(emulator: Emulator, style: str) -> str:
    return sgr(emulator.styles.value(style)).decode()


def _paint(emulator: Emulator, style: str) -> str:
    """Return the sequences that select a style and its protection."""
    protection = PROTECT[emulator.styles.value(style).protection] if emulator.protection_used else ""
    return _sgr(emulator, style) + protection

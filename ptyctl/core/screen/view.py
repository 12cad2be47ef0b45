"""A screen shown in another terminal, of any size: what is drawn there is the picture, and never what the far end sent.

So nothing that could attack a watcher passes, a smaller terminal sees the part around the cursor, and a row of it can be had
for a status line, whatever margins the far end sets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import modes
from .canvas import Canvas
from .cells import BLANK, FIRST_CLUSTER, STUB
from .state import DEFAULT_STYLE
from .style import sgr

_RUNS = re.compile(r"(.)\1*", re.DOTALL)
_WIDE = re.compile(f"[\0{FIRST_CLUSTER}-\U0010ffff]")
_PLAIN = "\x1b[m"
_ERASE_TO_END = "\x1b[m\x1b[K"
_ERASE_ROW = "\x1b[m\x1b[2K"

#: What changes the bytes of keys and of the mouse; they do nothing to cells.
_INPUT_MODES = modes.MOUSE | {modes.DECCKM, modes.DECNKM, *map(modes.private, (1004, 1005, 1006, 1007, 1015, 2004))}


@dataclass(frozen=True, slots=True)
class Frame:
    """What a terminal of some size shows of a screen. Each row draws itself from the first column on; `cursor` is (row,
    column), 0-based, None while it is hidden; `input_modes` are DEC private modes."""

    rows: tuple[str, ...]
    cursor: tuple[int, int] | None
    cursor_style: int
    title: str
    reverse: bool
    input_modes: frozenset[int]


def framed(canvas: Canvas, cols: int, rows: int) -> Frame:
    """The part of that size that has the cursor in it, the top and the left of the screen if it can be."""
    x, y = min(canvas.cursor.x, canvas.columns - 1), canvas.cursor.y
    top, left = max(0, y - rows + 1), max(0, x - cols + 1)
    shown = range(top, min(top + rows, canvas.lines))
    return Frame(
        rows=tuple(_row(canvas, number, left, cols) for number in shown) + (_ERASE_ROW,) * (rows - len(shown)),
        cursor=None if canvas.cursor.hidden else (y - top, x - left),
        cursor_style=int(canvas.cursor_style or 0),
        title="".join(filter(str.isprintable, canvas.title)),
        reverse=modes.DECSCNM in canvas.mode,
        input_modes=frozenset(map(modes.number, _INPUT_MODES & canvas.mode)),
    )


class View:
    """The terminal in which a screen is shown: only what has changed is drawn. `takes_input` is whether keys go to the far end;
    where they do not, its modes are left out, and the mouse selects text as ever."""

    def __init__(self) -> None:
        self._rows: list[str] = []
        self._title: str | None = None
        self._cursor_style = 0
        self._reverse = False
        self._input_modes: frozenset[int] = frozenset()

    def forget(self) -> None:
        """The terminal was resized: nobody knows what it shows now."""
        self._rows = []

    def draw(self, frame: Frame, status: str | None = None, *, takes_input: bool = False) -> bytes:
        """Makes the terminal show `frame`, and below it `status`, a row as it is to be drawn."""
        wanted = [*frame.rows, *([status] if status is not None else [])]
        changed = [y for y, row in enumerate(wanted) if self._rows[y : y + 1] != [row]]
        parts = [f"\x1b[{y + 1}H{wanted[y]}" for y in changed]
        if changed:
            parts = ["\x1b[?25l", _PLAIN, *parts, _PLAIN]
        self._rows = wanted
        parts.append(self._settings(frame, frame.input_modes if takes_input else frozenset()))
        if frame.cursor is not None:
            parts.append(f"\x1b[{frame.cursor[0] + 1};{frame.cursor[1] + 1}H\x1b[?25h")
        else:
            parts.append("\x1b[?25l")
        return "".join(parts).encode()

    def leave(self) -> bytes:
        """Takes back what was set."""
        off = "".join(f"\x1b[?{number}l" for number in sorted(self._input_modes))
        reverse = "\x1b[?5l" if self._reverse else ""
        style = "\x1b[ q" if self._cursor_style else ""
        return f"{_PLAIN}{off}{reverse}{style}\x1b[?25h".encode()

    def _settings(self, frame: Frame, input_modes: frozenset[int]) -> str:
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


def _row(canvas: Canvas, y: int, left: int, cols: int) -> str:
    text, styles = canvas.grid.text[y], canvas.grid.styles[y]
    end = min(left + cols, len(text))
    cells = text[left:end]
    if cells.startswith(STUB):  # half of a wide character is none
        cells = BLANK + cells[1:]
    if text[end : end + 1] == STUB:
        cells = cells[:-1] + BLANK
    styles = styles[left:end]
    return _by_cells(canvas, cells, styles) if _WIDE.search(cells) else _by_runs(canvas, cells, styles, cols)


def _by_runs(canvas: Canvas, cells: str, styles: str, cols: int) -> str:
    length = max(len(cells.rstrip(BLANK)), len(styles.rstrip(DEFAULT_STYLE)))
    runs = (_sgr(canvas, run[1]) + cells[run.start() : run.end()] for run in _RUNS.finditer(styles, 0, length))
    return "".join(runs) + (_ERASE_TO_END if length < cols else "")


def _by_cells(canvas: Canvas, cells: str, styles: str) -> str:
    """From right to left, each at its place: a terminal that joins or measures characters otherwise spoils that cell only."""
    parts = [_ERASE_ROW]
    for x in range(len(cells) - 1, -1, -1):
        if cells[x] != STUB and (cells[x], styles[x]) != (BLANK, DEFAULT_STYLE):
            parts.append(f"\x1b[{x + 1}G{_sgr(canvas, styles[x])}{canvas.clusters.text(cells[x])}")
    return "".join(parts)


def _sgr(canvas: Canvas, style: str) -> str:
    return sgr(canvas.styles.value(style)).decode()

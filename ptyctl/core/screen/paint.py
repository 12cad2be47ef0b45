"""A screen as bytes that make a fresh terminal of the same size show it, and go on from it.

Both screens, the cursor, what DECSC saved, style, margins, modes, tab stops, character sets and titles. Only the character that
REP would repeat is not to be had: a program sends it right behind that character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyte.charsets import LAT1_MAP

from . import modes
from .canvas import Canvas
from .cells import BLANK, STUB
from .grid import Grid
from .state import DEFAULT_STYLE, SavedCursor
from .style import sgr

_RUNS = re.compile(r"(.)\1*", re.DOTALL)
_CLUSTERS = re.compile("[\0\U000f0000-\U0010ffff]")


def painted(canvas: Canvas) -> bytes:
    return "".join(_painting(canvas)).encode("utf-8")


def _painting(canvas: Canvas) -> Iterator[str]:
    yield from _rows(canvas, canvas.main or canvas.grid)
    if canvas.main is not None:
        saved = canvas.saved.get(False)
        if saved is not None:
            yield from _cursor(canvas, canvas.main, saved)
        yield f"\x1b[?{1049 if saved is not None else 47}h"
        yield from _fresh_cursor(saved)
        yield "\x1b[2J"  # it was blanked with the background that was saved
        yield from _rows(canvas, canvas.grid)
    saved = canvas.saved.get(canvas.alternate)
    if saved is not None:
        yield from _cursor(canvas, canvas.grid, saved)
        yield "\x1b7"
        yield from _fresh_cursor(saved)
    yield from _tab_stops(canvas)
    yield from _titles(canvas)
    if canvas.margins is not None:
        yield f"\x1b[{canvas.margins.top + 1};{canvas.margins.bottom + 1}r"
    charsets = canvas.g0_charset, canvas.g1_charset, canvas.charset
    here = SavedCursor(canvas.cursor.x, canvas.cursor.y, canvas.pen, *charsets, origin=modes.DECOM in canvas.mode)
    yield from _cursor(canvas, canvas.grid, here, canvas.region[0] if here.origin else 0)
    yield from _modes(canvas)


def _rows(canvas: Canvas, grid: Grid) -> Iterator[str]:
    for y, (row, styles) in enumerate(zip(grid.text, grid.styles, strict=True)):
        # Beside a wide character or a cluster the order matters: what comes next could join it.
        yield from _cells(canvas, grid, y) if _CLUSTERS.search(row) else _runs(canvas, y, row, styles)
    yield "\x1b[m"


def _runs(canvas: Canvas, y: int, row: str, styles: str) -> Iterator[str]:
    length = max(len(row.rstrip(BLANK)), len(styles.rstrip(DEFAULT_STYLE)))
    if length:
        yield f"\x1b[{y + 1}H"
        for run in _RUNS.finditer(styles, 0, length):
            yield _sgr(canvas, run[1]) + row[run.start() : run.end()]


def _cells(canvas: Canvas, grid: Grid, y: int) -> Iterator[str]:
    """From right to left."""
    for x in range(canvas.columns - 1, -1, -1):
        cell, style = grid.text[y][x], grid.styles[y][x]
        if cell != STUB and (cell, style) != (BLANK, DEFAULT_STYLE):
            yield f"\x1b[{y + 1};{x + 1}H{_sgr(canvas, style)}{canvas.clusters.text(cell)}"


def _cursor(canvas: Canvas, grid: Grid, at: SavedCursor, top: int = 0) -> Iterator[str]:
    """Puts the cursor there, with what is saved beside it; one that waits to wrap comes behind a character drawn anew."""
    if at.origin:
        yield "\x1b[?6h"
    x, y = at.x, at.y - top + 1
    if x < canvas.columns:
        yield f"\x1b[{y};{x + 1}H"
    else:
        x -= 2 if grid.text[at.y].endswith(STUB) else 1
        yield f"\x1b[{y};{x + 1}H{_sgr(canvas, grid.styles[at.y][x])}{canvas.clusters.text(grid.text[at.y][x])}"
    yield _sgr(canvas, at.pen)
    if at.g0 is not LAT1_MAP:
        yield "\x1b(0"
    if at.g1 is not LAT1_MAP:
        yield "\x1b)0"
    if at.charset:
        yield "\x0e"


def _fresh_cursor(saved: SavedCursor | None) -> Iterator[str]:
    if saved is not None:
        yield "\x1b[m\x1b(B\x1b)B\x0f\x1b[?6l"


def _tab_stops(canvas: Canvas) -> Iterator[str]:
    if canvas.tabstops != set(range(8, canvas.columns, 8)):
        yield "\x1b[3g" + "".join(f"\x1b[;{stop + 1}H\x1bH" for stop in sorted(canvas.tabstops))


def _titles(canvas: Canvas) -> Iterator[str]:
    for title in canvas.titles:
        yield f"\x1b]2;{title}\x1b\\\x1b[22;2t"
    if canvas.title or canvas.titles:
        yield f"\x1b]2;{canvas.title}\x1b\\"


def _modes(canvas: Canvas) -> Iterator[str]:
    """All but origin mode, which moves the cursor."""
    if canvas.cursor_style:
        yield f"\x1b[{canvas.cursor_style} q"
    yield from (f"\x1b[{mode}h" for mode in (modes.IRM, modes.LNM) if mode in canvas.mode)
    yield from (f"\x1b[?{modes.number(mode)}l" for mode in sorted(modes.DEFAULT - canvas.mode))
    yield from (f"\x1b[?{modes.number(mode)}h" for mode in sorted(modes.KEPT & canvas.mode - {modes.DECNKM}))
    if modes.DECNKM in canvas.mode:
        yield "\x1b="


def _sgr(canvas: Canvas, style: str) -> str:
    return sgr(canvas.styles.value(style)).decode()

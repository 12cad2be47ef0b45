"""What a terminal shows, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .canvas import Canvas
from .state import DEFAULT_STYLE

_STYLED = re.compile(rf"([^{DEFAULT_STYLE}])\1*")


@dataclass(frozen=True, slots=True)
class Run:
    """Columns of a row, `begin` to `end` (exclusive, 0-based), that are drawn alike and not in the default way.

    A colour is `default`, a name (`red`, `brightred`), one of 256 (`color208`), or `#rrggbb`.
    """

    begin: int
    end: int
    fg: str = "default"
    bg: str = "default"
    bold: bool = False
    faint: bool = False
    italics: bool = False
    underline: bool = False
    blink: bool = False
    reverse: bool = False
    hidden: bool = False
    strikethrough: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """What a person would see. `rows` have their trailing blanks cut; `cursor` is (row, column), 0-based, on the screen."""

    rows: tuple[str, ...]
    cursor: tuple[int, int]
    cursor_visible: bool
    title: str
    alt_screen: bool
    cols: int
    rows_count: int
    #: For each row the runs that are not drawn in the default way; None where they were not asked for.
    attributes: tuple[tuple[Run, ...], ...] | None = None


def pictured(canvas: Canvas, *, attributes: bool) -> Picture:
    cursor = canvas.cursor
    return Picture(
        rows=tuple(map(canvas.plain, canvas.grid.text)),
        cursor=(cursor.y, min(cursor.x, canvas.columns - 1)),
        cursor_visible=not cursor.hidden,
        title=canvas.title,
        alt_screen=canvas.alternate,
        cols=canvas.columns,
        rows_count=canvas.lines,
        attributes=tuple(_runs(canvas, styles) for styles in canvas.grid.styles) if attributes else None,
    )


def _runs(canvas: Canvas, styles: str) -> tuple[Run, ...]:
    return tuple(Run(run.start(), run.end(), *canvas.styles.value(run[1])) for run in _STYLED.finditer(styles))

"""What was drawn before the whole screen was drawn anew need not be drawn. The alternate screen only: it keeps no lines.

Take bytes that only draw, erase, move the cursor, style, or set what is listed here, and a place in them where the cursor is
addressed. Draw only from there, with the style and all that is set by then, on a screen of marks that nothing else draws. What
is drawn depends on all these and not on what cells hold, but that any character joins a zero width joiner before it: there must
be none. So a mark that is left stands for a cell from before that still shows; where none is, nothing from before does.
"""

from __future__ import annotations

import re

from .cells import ZWJ
from .fast_forward import shift, styling
from .grid import Grid

#: No cell and no style is kept as that (see `Interned`).
MARK = "\U0010ffff"
#: Margins, wrapping, the cursor and its blinking, synchronised output, insert mode, character sets: each sets the same whatever
#: was before.
_SETTING = rb"\[[0-9;]{0,64}r|\[\?(?:7|12|25|2026)[hl]|\[4[hl]|[()][0B]"
_SETTINGS = re.compile(rb"\x1b(?:%s)" % _SETTING)
_OTHER = re.compile(rb"\x1b(?!\[[0-9;:]{0,64}[@A-HJ-MPSTXZ`abdefm]|%s)" % _SETTING)
_ADDRESS = re.compile(rb"\x1b\[[0-9;]{0,64}[Hf]")
#: This part of what there is, at its end, is drawn in the hope that it is enough. With fewer bytes a cell it is not tried.
_PART = 8
_BYTES_PER_CELL = 32


def drawing_end(data: bytes, begin: int) -> int:
    """Where such bytes end that begin at `begin`, between two sequences."""
    other = _OTHER.search(data, begin)
    return shift(data, begin, len(data) if other is None else other.start())


def address(data: bytes, begin: int, end: int, cells: int) -> int:
    """A place in such bytes from which on it is worth a try; or `begin`."""
    if end - begin < cells * _BYTES_PER_CELL or data.find(ZWJ.encode(), begin, end) >= 0:
        return begin
    found = _ADDRESS.search(data, end - (end - begin) // _PART, end)
    return begin if found is None else found.start()


def settings(data: bytes, begin: int, end: int) -> bytes:
    """What such bytes have set at their end, as bytes that set it. Of alike ones the last counts."""
    last = dict.fromkeys(reversed(_SETTINGS.findall(data, begin, end)))
    return b"".join(reversed(last)) + styling(data, begin, end)


def unknown(cols: int, rows: int) -> Grid:
    """A screen of which nothing is known."""
    grid = Grid(cols, rows, MARK)
    grid.text = [MARK * cols] * rows
    return grid


def known(grid: Grid) -> bool:
    """Whether all of it has been drawn."""
    return not any(MARK in row for row in grid.styles)

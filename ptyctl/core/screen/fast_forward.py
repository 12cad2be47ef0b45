"""Finds input that need not be drawn: text that provably scrolls off, and drawing that is provably overwritten.

Scrolling. Take a run of bytes that only draw text, move down or within the line, or change the style. It contains a carriage
return followed by n line feeds. The screen has R rows, scrolls as a whole and keeps H lines. Draw only what follows that
return, with the cursor on the last row and the style of that point. From the true row, whichever it was, R - 1 line feeds
lead to the last row too. From then on both scroll alike: after R more line feeds every row of the screen was begun after the
cut, after H more every kept line too. So n >= 2R - 1 + H is enough. Fewer are not: while the cursor walks down, it overwrites
old rows. What a line draws depends only on the column (0 after the return), modes, style and character set, of which the run
changes only the style. The SGR sequences before the cut, from the last reset on, are applied.

Redrawing. On the alternate screen, which keeps no lines, take bytes that only draw, erase, move the cursor, style, or set the
settings listed here, and a cursor address among them. Draw only from there, with the style and settings of that point, on a
screen of unknown cells. What is drawn depends on these and not on the contents of cells, except that any character joins a
zero width joiner before it: there must be none. If no unknown cell is left, nothing drawn earlier is visible. If one is left,
an earlier cell shows.
"""

from __future__ import annotations

import re

from .cells import ZWJ, Grid
from .parser import MAX_SEQUENCE

#: Shifts of the character set. With any ESC that is not SGR they end a run: other controls act within the line, or downwards.
_SHIFTS = (b"\x0e", b"\x0f")
_NOT_SGR = re.compile(rb"\x1b(?!\[[0-9;:]*m)")
_SGR = re.compile(rb"\x1b\[[0-9;:]*m")
_PARTIAL_SGR = re.compile(rb"\x1b(?:\[[0-9;:]*)?")
_MAX_PARTIAL_BYTES = 64
_STYLE_RESETS = (b"\x1b[m", b"\x1b[0m", b"\x1b[0;")

#: The style of an unknown cell; `Interned` never assigns this character.
_UNKNOWN = "\U0010ffff"
#: Margins, autowrap, cursor visibility and blinking, synchronised output, insert mode, character sets: the effect does not
#: depend on the state before.
_SETTING = rb"\[[0-9;]{0,64}r|\[\?(?:7|12|25|2026)[hl]|\[4[hl]|[()][0B]"
_SETTINGS = re.compile(rb"\x1b(?:%s)" % _SETTING)
_NOT_DRAWING = re.compile(rb"\x1b(?!\[[0-9;:]{0,64}[@A-HJ-MPSTXZ`abdefm]|%s)" % _SETTING)
_CURSOR_ADDRESS = re.compile(rb"\x1b\[[0-9;]{0,64}[Hf]")
#: The last 1/8 of the bytes is tried; with fewer bytes for each cell of the screen nothing is tried.
_TRIED_FRACTION = 8
_BYTES_PER_CELL = 32


def text_run_end(data: bytes, begin: int) -> int:
    """Return the end of the run of text and SGR that begins at `begin`, which is not within a sequence."""
    end = len(data)
    if data.find(b"\x1b", begin) >= 0 and (other := _NOT_SGR.search(data, begin)) is not None:
        end = other.start()
    return _first_shift(data, begin, end)


def _first_shift(data: bytes, begin: int, end: int) -> int:
    for control in _SHIFTS:
        found = data.find(control, begin, end)
        end = found if found >= 0 else end
    return end


def partial_sgr_start(data: bytes) -> int:
    """Return the start of a partial sequence at the end of `data` that may become SGR, or the end of `data`."""
    begin = data.rfind(b"\x1b", max(0, len(data) - _MAX_PARTIAL_BYTES))
    return begin if begin >= 0 and _PARTIAL_SGR.fullmatch(data, begin) is not None else len(data)


def scroll_cut(data: bytes, begin: int, end: int, line_feeds: int) -> int:
    """Return the last offset after a carriage return that is followed by `line_feeds` line feeds, or `begin`."""
    position = end
    if end - begin <= line_feeds:
        return begin
    for _ in range(line_feeds):
        position = data.rfind(b"\n", begin, position)
        if position < 0:
            return begin
    return max(begin, data.rfind(b"\r", begin, position) + 1)


def effective_sgr(data: bytes, begin: int, end: int) -> bytes:
    """Return the SGR sequences of this part of a run that still have an effect at its end."""
    found: list[bytes] = []
    while (position := data.rfind(b"\x1b", begin, end)) >= 0:
        sgr = _SGR.match(data, position)
        if sgr is not None and sgr.end() - position <= MAX_SEQUENCE:  # the tokenizer ignores longer ones
            found.append(sgr[0])
            if sgr[0].startswith(_STYLE_RESETS):
                break
        end = position
    return b"".join(reversed(found))


def drawing_run_end(data: bytes, begin: int) -> int:
    """Return the end of the run of drawing and settings that begins at `begin`, which is not within a sequence."""
    other = _NOT_DRAWING.search(data, begin)
    return _first_shift(data, begin, len(data) if other is None else other.start())


def redraw_start(data: bytes, begin: int, end: int, cells: int) -> int:
    """Return the offset of a cursor address in a drawing run where drawing may start, or `begin`."""
    if end - begin < cells * _BYTES_PER_CELL or data.find(ZWJ.encode(), begin, end) >= 0:
        return begin
    found = _CURSOR_ADDRESS.search(data, end - (end - begin) // _TRIED_FRACTION, end)
    return begin if found is None else found.start()


def effective_settings(data: bytes, begin: int, end: int) -> bytes:
    """Return bytes that set the settings and the style in effect at the end of this part of a drawing run."""
    last = dict.fromkeys(reversed(_SETTINGS.findall(data, begin, end)))
    return b"".join(reversed(last)) + effective_sgr(data, begin, end)


def unknown_grid(cols: int, rows: int) -> Grid:
    """Return a grid of unknown cells only."""
    grid = Grid(cols, rows, _UNKNOWN)
    grid.text = [_UNKNOWN * cols] * rows
    return grid


def is_fully_drawn(grid: Grid) -> bool:
    """Whether no unknown cell is left."""
    return not any(_UNKNOWN in row for row in grid.styles)

"""Finds progress bars and blocks on the main screen: lines that are redrawn, where only the last drawing is visible.

A progress bar returns to the first column and draws its row again. A block is some rows that the cursor moves up to. The
bytes are a walk over rows if they consist of lines that fit the columns, of line feeds and cursor motions up and down that
stay on the screen, and if the cursor ends in the row where it began. A walk cannot scroll, and draws only into the rows that
it visits. Draw only its end, from the start of a line in the first row of the walk, on unknown cells, as `fast_forward`
describes for frames. A row that is unknown then is unchanged if the walk does not draw into it. The right part of a row that
is unknown is unchanged if no line of the walk is longer than the left part, and none erases or inserts; a wide character
across the border is blank, because the column before the border was overwritten.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import re2

from .cells import BLANK, STUB, Grid
from .fast_forward import COLUMN, ERASURE, MAX_COLUMNS, OPTIONS, UNDRAWN, UNKNOWN

_UP, _DOWN = rb"\x1b\[[01]?[AF]", rb"(?:\n|\x1b\[[01]?[BE])"
#: Motions that keep the column, and the start of a line.
_VERTICAL = rb"\n|\x1b\[[0-9]*[AB]"
_FIRST_COLUMN = rb"\r|\x1b\[[01]?G|\x1b\[[0-9]*[EF]"
_STARTS_LINE = re.compile(rb"(?:%s|%s|%s)*(?:%s)" % (UNDRAWN, ERASURE, _VERTICAL, _FIRST_COLUMN))
#: For the row only: any byte or sequence that keeps it, and those that do not draw either.
_DRAWN = rb"(?:[^\n\x1b]|\x1b[^\[]|\x1b\[[0-9;:?]*[^0-9;:?ABEF])*"
_STILL = rb"(?:[\x00\x07\x0e\x0f\x7f\r]|\x1b[()][0B]|\x1b\[[0-9;:?]*[^0-9;:?ABEFJKPX@])*"
_MOTION = re.compile(rb"[\r\n]|\x1b\[([0-9]{0,4})([ABEF])")
_IN_FIRST_COLUMN = re.compile(rb"\r(?:%s)*+" % _VERTICAL)
_INSERT_MODE = b"\x1b[4h"
_ERASED_DISPLAY = re2.compile(rb"\x1b\[[02]?J")

#: Size of the sample that determines the motions of a walk. Walks over more rows, or with more different counts of
#: motions, are not recognised.
_SAMPLE_BYTES = 1 << 14
_MAX_REACH, _MAX_COUNTS = 32, 12
#: Size of the output that is searched for the start of a line in the first row (bytes).
_LONGEST_BLOCK = 1 << 14


class CursorWalk(NamedTuple):
    """The rows that a walk visits above and below its first row, the counts of its motions, and the rows it does not draw into.

    Rows are relative to the first one.
    """

    up: int
    down: int
    counts: tuple[int, ...]
    undrawn: frozenset[int]


def walk_begin(data: bytes, begin: int, end: int, column: int) -> int:
    """Return the offset from `begin` on where a walk may begin: at a motion up, otherwise at the start of a line; or `end`."""
    for found in _MOTION.finditer(data, begin, min(begin + _SAMPLE_BYTES, end)):
        if found[2] in (b"A", b"F"):
            return found.start()
    found_begin = begin if column == 0 else data.find(b"\r", begin, end)
    return found_begin if found_begin >= 0 else end


def walk_at(data: bytes, begin: int, row: int, rows: int) -> CursorWalk | None:
    """Return the walk that begins at `begin` in a row of a screen, or None if there is none."""
    level = low = high = 0
    counts, drawn, at = set[int](), set[int](), begin
    end = min(begin + _SAMPLE_BYTES, len(data))
    for found in _MOTION.finditer(data, begin, end):
        if _draws(data[at : found.start()]):
            drawn.add(level)
        at = found.end()
        if found[0] == b"\r":
            continue
        count = int(found[1] or 1) or 1
        level += -count if found[2] in (b"A", b"F") else count
        low, high = min(low, level), max(high, level)
        if count > 1:
            counts.add(count)
    if _draws(data[at:end]):
        drawn.add(level)
    if -low > min(row, _MAX_REACH) or len(counts) > _MAX_COUNTS:
        return None
    high = min(high, rows - 1 - row)
    if high > _MAX_REACH:
        return None
    return CursorWalk(-low, high, tuple(sorted(counts)), frozenset(range(low, high + 1)) - drawn)


@lru_cache(maxsize=8)
def _undrawn_only() -> re2.Pattern[bytes]:
    return re2.compile(_STILL, OPTIONS)


def _draws(part: bytes) -> bool:
    return _undrawn_only().fullmatch(part) is None


def lines_end(data: bytes, begin: int, cols: int, column: int) -> int:
    """Return the end of the lines that begin at `begin` and fit the columns. The cursor is in `column`."""
    pattern = _lines(min(cols, MAX_COLUMNS), erasing=True)
    if column:
        return (
            begin if _STARTS_LINE.match(data, begin, begin + _SAMPLE_BYTES) is None else int(pattern.match(data, begin).end())
        )
    return begin - 1 + int(pattern.match(b"\r" + data[begin:]).end())


def _are_lines_within(data: bytes, begin: int, end: int, cols: int) -> bool:
    """Return whether lines draw into the first columns only, and neither erase nor insert. Part of a line may precede them."""
    if cols > MAX_COLUMNS or data.find(_INSERT_MODE, begin, end) >= 0:
        return False
    return _lines(cols, erasing=False).fullmatch(b"\r" + data[begin:end]) is not None


@lru_cache(maxsize=32)
def _lines(cols: int, *, erasing: bool) -> re2.Pattern[bytes]:
    still = rb"(?:%s|%s)*" % (UNDRAWN, rb"%s|%s" % (ERASURE, _VERTICAL) if erasing else _VERTICAL)
    return re2.compile(rb"%s(?:(?:%s)%s(?:(?:%s)%s){0,%d})*" % (still, _FIRST_COLUMN, still, COLUMN, still, cols), OPTIONS)


def walk_end(walk: CursorWalk, data: bytes, begin: int, end: int) -> int:
    """Return the last offset up to `end` where the walk is in its first row."""
    return int(_rows(walk).match(data, begin, end).end())


def line_begin(walk: CursorWalk, data: bytes, begin: int, end: int) -> int | None:
    """Return the next offset at which the walk is in the first column of its first row; None if it is too far."""
    for found in _IN_FIRST_COLUMN.finditer(data, begin, min(begin + _LONGEST_BLOCK, end)):
        for motion in _MOTION.finditer(data, found.start(), found.end()):
            begin = walk_end(walk, data, begin, motion.end())
            if begin == motion.end():
                return begin
    return None


@lru_cache(maxsize=16)
def _rows(walk: CursorWalk) -> re2.Pattern[bytes]:
    """Compile a pattern of the bytes of a walk that end in its first row; it ignores columns."""

    def drawn(row: int) -> bytes:
        return _STILL if row in walk.undrawn else _DRAWN

    above = b""
    for row in range(-walk.up, 0):
        above = _UP + drawn(row) + (rb"(?:%s%s)*" % (above, drawn(row)) if above else b"") + _DOWN
    below = b""
    for row in range(walk.down, 0, -1):
        below = _DOWN + drawn(row) + (rb"(?:%s%s)*" % (below, drawn(row)) if below else b"") + _UP
    parts = [part for part in (above, below) if part]
    for count in walk.counts:
        if count <= walk.up:
            back = _DOWN.join(drawn(row) for row in range(1 - count, 0))
            back = rb"(?:%s%s%s|\x1b\[%d[BE])" % (_DOWN, back, _DOWN, count)
            parts.append(rb"\x1b\[%d[AF]%s%s" % (count, drawn(-count), back))
        if count <= walk.down:
            down = _DOWN.join(drawn(row) for row in range(1, count))
            down = rb"(?:%s%s%s|\x1b\[%d[BE])" % (_DOWN, down, _DOWN, count)
            parts.append(rb"%s%s\x1b\[%d[AF]" % (down, drawn(count), count))
    return re2.compile(rb"%s(?:(?:%s)%s)*" % (drawn(0), b"|".join(parts), drawn(0)) if parts else drawn(0), OPTIONS)


class Unknown(NamedTuple):
    """The cells that remain unknown after drawing: in these rows, from these columns on."""

    borders: dict[int, int]

    @property
    def is_partial(self) -> bool:
        """Whether a part of a row is unknown."""
        return any(self.borders.values())

    def may_change(self, walk: CursorWalk, row: int, data: bytes, begin: int, end: int) -> bool:
        """Return whether a part of a walk, which begins and ends in the row `row`, may change the cells."""
        if not self.borders:
            return False
        erased = set(_ERASED_DISPLAY.findall(data, begin, end))
        if b"\x1b[2J" in erased or (erased and max(self.borders) >= row - walk.up):
            return True
        unknown = {y - row for y, border in self.borders.items() if not border and -walk.up <= y - row <= walk.down}
        if not unknown <= walk.undrawn and walk_end(walk._replace(undrawn=walk.undrawn | unknown), data, begin, end) < end:
            return True
        partial = [border for border in self.borders.values() if border]
        return bool(partial) and not _are_lines_within(data, begin, end, min(partial))

    def restore(self, grid: Grid) -> None:
        """Replace the unknown cells by the previous ones, and drop the previous rows, which follow the last row of the grid."""
        rows = len(grid.text) // 2
        for y, border in self.borders.items():
            text = grid.text[rows + y]
            if text[border : border + 1] == STUB:
                text = text[:border] + BLANK + text[border + 1 :]
            grid.text[y] = grid.text[y][:border] + text[border:]
            grid.styles[y] = grid.styles[y][:border] + grid.styles[rows + y][border:]
        for content in (grid.text, grid.styles):
            del content[rows:]


def unknown_cells(grid: Grid) -> Unknown | None:
    """Return the cells of a grid that are still unknown; None if an unknown cell precedes a known one in its row."""
    borders = dict[int, int]()
    for y, styles in enumerate(grid.styles[: len(grid.styles) // 2]):
        unknown = styles.count(UNKNOWN)
        if unknown:
            borders[y] = border = grid.cols - unknown
            if styles[border:] + grid.text[y][border:] != UNKNOWN * (2 * unknown):
                return None
    return Unknown(borders)

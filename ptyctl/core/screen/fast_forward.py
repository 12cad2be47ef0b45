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

On the main screen the bytes must also keep all lines: they consist of addresses of the first column of a row, and of lines
that begin there, fit the columns, and end with CR LF; after an address there are no more line feeds than rows below it. What
such a line draws is in its row, erasure of the display excepted. So a row of unknown cells may also be one in which the
skipped lines are empty: it is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from functools import lru_cache

import re2

from ptyctl.core.control_sequences import ESC, SGR_BODY, SGR_PARAMETERS, ZERO_WIDTH_JOINER, compile_bytes

from .cells import Grid
from .parser import MAX_SEQUENCE

#: Shifts of the character set. With any ESC that is not SGR they end a run: other controls act within the line, or downwards.
_SHIFTS = (b"\x0e", b"\x0f")
_NOT_SGR = compile_bytes(rf"\x1b(?!{SGR_BODY})")
_SGR = compile_bytes(rf"\x1b{SGR_BODY}")
_PARTIAL_SGR = compile_bytes(rf"\x1b(?:\[{SGR_PARAMETERS})?")
_MAX_PARTIAL_BYTES = 64
#: Sequences are searched backwards in pieces of this size.
_PIECE_BYTES = 4096
_STYLE_RESETS = (b"\x1b[m", b"\x1b[0m", b"\x1b[0;")

#: The style of an unknown cell; `Interned` never assigns this character.
UNKNOWN = "\U0010ffff"
#: Autowrap, cursor visibility and blinking, synchronised output, insert mode, character sets, erasure of the scrollback, and
#: margins: the effect does not depend on the state before.
_LINE_SETTING = rb"\[\?(?:7|12|25|2026)[hl]|\[4[hl]|\[3J|[()][0B]"
_SETTING = rb"\[[0-9;]{0,64}r|" + _LINE_SETTING
_SETTINGS = re.compile(rb"\x1b(?:%s)" % _SETTING)
_ANY_SETTING = re2.compile(_SETTINGS.pattern)
_NOT_DRAWING = re.compile(rb"\x1b(?!\[[0-9;:]{0,64}[@A-IK-MPSTXZ`abdefm]|\[[0-2]?J|%s)" % _SETTING)
_CURSOR_ADDRESS = re.compile(rb"\x1b\[[0-9;]{0,64}[Hf]")
#: With fewer bytes for each cell of the screen nothing is skipped.
_BYTES_PER_CELL = 32

#: Parts of the lines of a frame: what draws nothing, what erases in the row or below, and a byte or character that takes as
#: many columns at most.
UNDRAWN = rb"\x1b(?:%s|%s)|[\x00\x07\x0e\x0f\x7f]" % (SGR_BODY.encode(), _LINE_SETTING)
ERASURE = rb"\x1b\[(?:[0-9;]*[KPX@]|[02]?J)"
COLUMN = rb"[ -~\x80-\xbf\xe0\xe1\xe3-\xf4]|[\xc2-\xdf][\x80-\xbf]|\xe2(?:[\x94-\x96\xa0-\xa3][\x80-\xbf]|[\x80-\xbf])"
_FIRST_COLUMN_ADDRESS = rb"\x1b\[[0-9]{0,4}(?:;1?)?H"
_NOT_ADDRESS = rb"[^\n\x1b]|\x1b[^\[]|\x1b\[[0-9;:?]*[^0-9;:?H]"
_MAX_ADDRESS_BYTES = 9
_ROW_ADDRESS = re2.compile(rb"\x1b\[([0-9]*)(?:;1?)?H")
_EMPTY_LINE = re.compile(rb"(?:\r|%s)*" % UNDRAWN)
_ERASED_DISPLAY = re.compile(rb"\x1b\[([02]?)J")
#: The patterns for larger screens take too long to compile; less of their output is skipped.
MAX_COLUMNS, MAX_ROWS = 400, 200
OPTIONS = re2.Options()
OPTIONS.encoding = re2.Options.Encoding.LATIN1
OPTIONS.longest_match = True
OPTIONS.max_mem = 64 << 20


def text_run_end(data: bytes, begin: int) -> int:
    """Return the end of the run of text and SGR that begins at `begin`, which is not within a sequence."""
    end = len(data)
    if data.find(ESC, begin) >= 0 and (other := _NOT_SGR.search(data, begin)) is not None:
        end = other.start()
    return _first_shift(data, begin, end)


def _first_shift(data: bytes, begin: int, end: int) -> int:
    for control in _SHIFTS:
        found = data.find(control, begin, end)
        end = found if found >= 0 else end
    return end


def partial_sgr_start(data: bytes) -> int:
    """Return the start of a partial sequence at the end of `data` that may become SGR, or the end of `data`."""
    begin = data.rfind(ESC, max(0, len(data) - _MAX_PARTIAL_BYTES))
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
    """Return the SGR sequences of this part of a run that are in effect after the part."""
    found = dict[bytes, None]()  # each sets attributes to fixed values: only its last occurrence has an effect
    for piece in _found_backwards(_SGR, data, begin, end):
        for sgr in dict.fromkeys(piece):
            if len(sgr) <= MAX_SEQUENCE:  # the tokenizer ignores longer ones
                found.setdefault(sgr)
                if sgr.startswith(_STYLE_RESETS):
                    return b"".join(reversed(found))
    return b"".join(reversed(found))


def _found_backwards(sequence: re.Pattern[bytes], data: bytes, begin: int, end: int) -> Iterator[list[bytes]]:
    """Yield the sequences in this part from the last to the first, in pieces."""
    while begin < end:
        piece = max(data.rfind(ESC, begin, max(begin, end - _PIECE_BYTES)), begin)
        yield sequence.findall(data, piece, end)[::-1]
        end = piece


def drawing_run_end(data: bytes, begin: int) -> int:
    """Return the end of the run of drawing and settings that begins at `begin`, which is not within a sequence."""
    other = _NOT_DRAWING.search(data, begin)
    return len(data) if other is None else other.start()


def cursor_address(data: bytes, begin: int, end: int) -> int:
    """Return the offset of the first cursor address from `begin` on, or `end`."""
    found = _CURSOR_ADDRESS.search(data, begin, end)
    return end if found is None else found.start()


def frames_end(data: bytes, begin: int, cols: int, rows: int) -> int:
    """Return the end of the frames that begin at `begin` and keep all lines, or `begin`."""
    fits, keeps = _frames(min(cols, MAX_COLUMNS), min(rows, MAX_ROWS))
    end = fits.match(data, begin).end()
    return int(keeps.match(data, begin, end).end())


@lru_cache(maxsize=8)
def _frames(cols: int, rows: int) -> tuple[re2.Pattern[bytes], re2.Pattern[bytes]]:
    """Compile a pattern of lines that fit the columns, and one of line feeds above the last row.

    In the second one the row is an upper bound: the next row may be reached without a line feed.
    """
    still = rb"(?:%s|%s)*" % (UNDRAWN, ERASURE)
    fits = rb"(?:(?:\r\n?|%s)%s(?:(?:%s)%s){0,%d})*" % (_FIRST_COLUMN_ADDRESS, still, COLUMN, still, cols)
    keeps = rb""
    for row in range(1, rows + 1):
        address = rb"\x1b\[%s(?:;1?)?H" % (rb"[01]?" if row == 1 else b"%d" % row)
        keeps = rb"(?:%s%s)(?:%s)*" % (keeps + rb"\n?|" if keeps else b"", address, _NOT_ADDRESS)
    return re2.compile(fits, OPTIONS), re2.compile(rb"(?:%s)*" % keeps, OPTIONS)


def is_redraw_long_enough(size: int, cells: int) -> bool:
    """Return whether a run of `size` bytes is worth the attempt to skip a part of it."""
    return size >= cells * _BYTES_PER_CELL


def may_join(data: bytes, begin: int, end: int) -> bool:
    """Return whether a character may join the one before it because of a zero width joiner."""
    joiner = ZERO_WIDTH_JOINER.encode()  # its last byte is rare, and found sooner
    return data.find(joiner[-1:], begin, end) >= 0 and data.find(joiner, begin, end) >= 0


def effective_settings(data: bytes, begin: int, end: int) -> bytes:
    """Return bytes that set the settings and the style in effect at the end of this part of a drawing run."""
    last = dict[bytes, None]()
    for piece in _found_backwards(_SETTINGS, data, begin, end) if _ANY_SETTING.search(data, begin, end) else ():
        last |= dict.fromkeys(piece)  # those found before keep their place
    shift = max(data.rfind(control, begin, end) for control in _SHIFTS)
    return b"".join(reversed(last)) + data[max(shift, 0) : shift + 1] + effective_sgr(data, begin, end)


def unknown_grid(grid: Grid) -> Grid:
    """Return a grid of unknown cells. The rows of `grid` follow its last row, so that their styles and clusters are kept."""
    other, rows = Grid(grid.cols, 0, UNKNOWN), len(grid.text)
    other.text, other.styles = [UNKNOWN * grid.cols] * rows + grid.text, [UNKNOWN * grid.cols] * rows + grid.styles
    return other


def unknown_rows(grid: Grid) -> list[int] | None:
    """Return the rows of unknown cells only; None if other rows have unknown cells."""
    rows = len(grid.styles) // 2
    unknown = [y for y in range(rows) if UNKNOWN in grid.styles[y]]
    return unknown if all(grid.styles[y] == UNKNOWN * grid.cols for y in unknown) else None


def restore_rows(grid: Grid, unknown: list[int]) -> None:
    """Replace unknown rows by the rows of the previous grid, and drop that grid."""
    rows = len(grid.styles) // 2
    for content in (grid.text, grid.styles):
        for y in unknown:
            content[y] = content[rows + y]
        del content[rows:]


def last_change(data: bytes, begin: int, end: int, rows: list[int]) -> Generator[None, None, int]:
    """Return the end of the last part of frames that changes one of these rows, or `begin`; in steps."""
    stop = limit = end
    while begin < stop:
        piece = max(begin, stop - _PIECE_BYTES)
        for address in reversed([*_ROW_ADDRESS.finditer(data, piece, min(stop + _MAX_ADDRESS_BYTES, limit))]):
            if address.start() < stop:
                if any(_changes(data[address.end() : end], max(int(address[1] or 1), 1) - 1, rows)):
                    return end
                end = address.start()
        stop = piece
        yield
    return begin


def _changes(part: bytes, first: int, rows: list[int]) -> Iterator[bool]:
    """Yield whether the lines that begin in row `first` draw into rows, or erase them."""
    lines = part.split(b"\n")
    for row in rows:
        yield first <= row < first + len(lines) and _EMPTY_LINE.fullmatch(lines[row - first]) is None
    for found in _ERASED_DISPLAY.finditer(part) if b"J" in part else ():
        yield rows[-1] >= (0 if found[1] == b"2" else first + part.count(b"\n", 0, found.start()))

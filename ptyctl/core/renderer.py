"""Renders raw terminal bytes to text, as a terminal of a given width and unlimited height shows it.

Carriage returns, backspaces, erase functions, cursor motions, tab stops, insert mode, autowrap, repetition and line drawing are
applied as on the screen (`ptyctl.core.screen`), attributes dropped, and wrapped lines joined. A LF begins a line at its first
column. The alternate screen leaves no text unless requested. Initially, tab stops and modes have their defaults. A line without
controls passes byte for byte, so exact output stays exact.
"""

from __future__ import annotations

import codecs
import copy
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from .control_sequences import (
    CSI_BODY,
    CSI_FINAL,
    ESCAPE_BODY,
    OSC_BODY,
    PARTIAL_SEQUENCE,
    SEQUENCE,
    SGR_PARAMETERS,
    SPECIAL_GRAPHICS,
    STRING_BODY,
    STRING_SEQUENCE,
    ZERO_WIDTH_JOINER,
)
from .screen.cells import width as cell_width

#: A surrogate that marks a resize in the text; decoding UTF-8 never produces it.
_RESIZE = "\udc00"
#: Attributes and queries, which draw nothing; not directly before REP, which then repeats nothing, and not at the end.
_DRAWS_NOTHING = rf"\x1b\[(?:{SGR_PARAMETERS}m|[>=?]?[0-9;]*[cn])"
_INVISIBLE = re.compile(rf"{_DRAWS_NOTHING}(?={_RESIZE}*(?:[^\x1b{_RESIZE}]|\x1b(?!\[[0-9;]*b)))")
#: The same at the end of the input, which nothing follows.
_INVISIBLE_AT_END = re.compile(rf"(?:{_DRAWS_NOTHING}|{_RESIZE})+\Z")
#: String sequences, and torn sequences, which following text must not complete.
_STRINGS = re.compile(rf"{STRING_SEQUENCE}|\x1b(?:\[{CSI_BODY}|{ESCAPE_BODY})(?=\x1b)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_DRAWN_CONTROLS = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\n")
_LINE_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_PARTIAL = re.compile(PARTIAL_SEQUENCE)
#: The bodies of sequences by their introducer; those not listed are escape sequences.
_BODIES = {"[": re.compile(CSI_BODY), "]": re.compile(OSC_BODY), **dict.fromkeys("PX^_", re.compile(STRING_BODY))}
_ESCAPE_BODY = re.compile(ESCAPE_BODY)
#: Longest line that is examined for a prompt or as a log line, with the redraws of a line editor (bytes).
EXAMINED_LINE_BYTES = 4096
_TOKEN = re.compile(
    rf"(?P<text>[^\x08-\x0f\x1b{_RESIZE}]+)|{_RESIZE}"  # with controls that do nothing
    rf"|\x1b\[(?P<private>\??)(?P<args>[0-9;]*+)[\x20-\x3f]*+(?P<final>{CSI_FINAL})"
    rf"|\x1b(?P<escape>[()]?[0-~])(?<![\[\]PX^_])|{SEQUENCE}"
    r"|(?P<c0>[\x08-\x0f])"
)
#: Characters of one column that never join another one: the most frequent ones.
_NARROW_CHARACTERS = r"!-~\x80-\u02ff\u0384-\u038a\u03a3-\u0482\u048a-\u052f\u05d0-\u05ea\u0620-\u064a\u2500-\u257f\ufffd"
_NARROW = re.compile(rf"[ {_NARROW_CHARACTERS}]+")
_NARROW_RUN = re.compile(rf"[{_NARROW_CHARACTERS}]+| +")
#: The most frequent characters of two columns.
_WIDE_CHARACTERS = r"\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\ua48c\uac00-\ud7a3\uff01-\uff60"
_CELL_PARTS = re.compile(
    rf"(?P<narrow>[ {_NARROW_CHARACTERS}]+(?![\u0300-\u036f]))|(?P<cluster>[ {_NARROW_CHARACTERS}][\u0300-\u036f]+)"
    rf"|(?P<wide>[{_WIDE_CHARACTERS}]+)|(?P<other>[\s\S])"
)
_NO_CONTROLS = dict.fromkeys((*range(8), *range(0x10, 0x20), 0x7F))
_ALTERNATE_SCREEN = {"47", "1047", "1049"}
_TAB_WIDTH = 8
#: Number of rows above the last row from which text is final: no terminal is higher.
_REACH_ROWS = 256
#: Lines are joined up to this many rows, which bounds the cells that wrapping and erasing copy.
_JOINED_ROWS = 64
#: An incomplete line is held back up to this length (characters), and an incomplete string sequence up to this one.
_LINE_LIMIT = 1024
_STRING_LIMIT = 1 << 20
#: A cell that was never written or was erased: a blank within a line, nothing after the last character.
_VOID = "\2"
#: The second column of a wide character, or a column that a tab skipped.
_FILLER = "\0"
#: The last column of a row that had no room for a wide character.
_PAD = "\1"


def render(data: bytes, width: int, resizes: Sequence[tuple[int, int]] = (), *, alternate: bool = False) -> str:
    """Return the rendered text of `data`, with LF between lines.

    `resizes` are ascending offsets into `data`, each with the width from there on. Bytes that are not UTF-8 become U+FFFD.
    `alternate` includes the text of the alternate screen.
    """
    if (plain := plain_text(data)) is not None:
        return plain
    renderer, begin = Renderer(width, alternate=alternate), 0
    for offset, new_width in resizes:
        renderer.feed(data[begin:offset])
        renderer.resize(new_width)
        begin = offset
    renderer.feed(data[begin:] if begin else data)
    return renderer.finish()


def plain_text(data: bytes) -> str | None:
    """Return the text of data without other controls than tabs and line ends, which is not drawn; otherwise None."""
    lines = data.replace(b"\r\n", b"\n")
    return lines.decode("utf-8", "replace") if len(lines.translate(None, _DRAWN_CONTROLS)) == len(lines) else None


def render_line(line: bytes) -> str:
    """Return one line as a terminal of 4096 columns shows it, for example without an erased pager prompt."""
    return render(line, EXAMINED_LINE_BYTES, alternate=True) if _LINE_CONTROL.search(line) else line.decode("utf-8", "replace")


def render_cursor_line(data: bytes, width: int) -> str:
    """Return the line that the cursor is in after `data`: all rows of a line that has wrapped."""
    renderer = Renderer(width, alternate=True)
    renderer.feed(data)
    renderer.finish()
    return renderer.cursor_line()


def render_before_cursor(data: bytes, width: int) -> str:
    """Return the line that the cursor is in after `data`, up to the cursor: for example without a prompt at the right edge."""
    renderer = Renderer(width, alternate=True)
    renderer.feed(data + b"\x1b[K")  # plain lines are not drawn
    renderer.finish()
    return renderer.text_before_cursor()


class WidthHistory:
    """Terminal widths by stream offset. The rendered text depends on the width at which bytes were received."""

    def __init__(self, first: int, resizes: Iterable[tuple[int, int]] = ()) -> None:
        self._offsets = [0]
        self._columns = [first]
        for offset, columns in resizes:
            self.add(offset, columns)

    def add(self, offset: int, columns: int) -> None:
        """Set the width from `offset` on; offsets ascend."""
        self._offsets.append(offset)
        self._columns.append(columns)

    def width_at(self, offset: int) -> int:
        """Return the width that applies to the byte at `offset`."""
        return self._columns[bisect_right(self._offsets, offset) - 1]

    def changes_between(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the resizes after `begin` and before `end`, with offsets relative to `begin`."""
        first, last = bisect_right(self._offsets, begin), bisect_right(self._offsets, end - 1)
        return [(self._offsets[number] - begin, self._columns[number]) for number in range(first, last)]


class UnboundedScreen:
    """A screen of one width and unlimited height, as logical lines: a line longer than `width` has wrapped.

    Motions count rows of `width` columns. Text that wraps over the line below joins both lines unless they are long; erasing a
    row up to its end (EL) divides the line after it.

    `x` and `y` are the cursor, 0-based; `x` counts along the logical line. `pending` is the pending wrap: the cursor is after
    the last column and wraps before the next character (DEC STD 070). `row` is the 1-based row of the last cursor address until
    a line feed; it identifies whether two addresses are in the same line. `redrawn` is the largest number of lines that the
    cursor has been above the last one. `autowrap` and `inserting` are the modes DECAWM and IRM.
    """

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self.y = 0
        self.x = 0
        self.pending = False
        self.redrawn = 0
        self.row: int | None = None
        self._previous_row: int | None = None  # `row` before the last address, while nothing was drawn there
        self._addressed = False
        self._erasing = False
        self.autowrap = True
        self.inserting = False
        self._saved: tuple[int, int, bool] | None = None
        self._address_column = 0
        self._stops: bytearray | None = None  # 1 for each column with a tab stop; None: every 8 columns
        self._insert_lines = False  # below the cursor are lines that were drawn elsewhere on the screen
        self._lines: list[str | list[str]] = [""]

    def text(self, end: int | None = None) -> str:
        """Return the text of all lines, or of those before `end`."""
        return "\n".join(line if isinstance(line, str) else _joined(line) for line in self._lines[:end])

    def cursor_line(self) -> str:
        """Return the text of the cursor's line."""
        line = self._lines[self.y]
        return line if isinstance(line, str) else _joined(line)

    def text_before_cursor(self) -> str:
        """Return the text of the cursor's line up to the cursor, with the blanks that were skipped before it."""
        cells = self._cells_of_line(self.y)[: self.x]
        return _text_of_cells(cells + [_VOID] * (self.x - len(cells)))

    def unchanging_lines(self) -> str:
        """Return the lines above the cursor, without lines that are being redrawn."""
        end = max(min(self.y, len(self._lines) - 1 - self.redrawn), 0)
        return self.text(end) + "\n" if end else ""

    def settle(self, rows: int) -> str:
        """Remove and return the text more than `rows` rows above the end. A very long line is divided at a row's end."""
        first, below = len(self._lines), 0
        while first and below <= rows:
            first -= 1
            below += len(self._lines[first]) // self.width + 1
        first = min(first, self.y)
        text = self.text(first) + "\n" if first else ""
        del self._lines[:first]
        self.y -= first
        if self._saved is not None:
            self._saved = (max(self._saved[0] - first, 0), *self._saved[1:])
        line = self._lines[0]
        if isinstance(line, list) and len(line) > 2 * rows * self.width:
            cut = len(line) // self.width * self.width - rows * self.width
            if self.y == 0:
                cut = min(cut, self._cursor() // self.width * self.width)
                self.x -= cut
            text += _text_of_cells(line[:cut])
            del line[:cut]
        return text

    def resize(self, width: int) -> None:
        """Change the width and wrap lines accordingly; the cursor stays after the same character. New columns get tab stops."""
        before, self.width = self.width, max(1, width)
        if self._stops is not None:
            self._set_tab_stops(self._stops[: self.width] + _default_tab_stops(self.width)[before:])
        self.pending = self.pending and self.x % self.width == 0

    def at_empty_line(self) -> bool:
        """Return whether the cursor is on an empty last line, where `keep` can store a plain line."""
        return self.x == 0 and self.y == len(self._lines) - 1 and not self._lines[self.y]

    def keep(self, line: str) -> None:
        """Store a plain line that ends the output."""
        self._lines[self.y] = line

    def keep_lines(self, lines: list[str]) -> None:
        """Store plain lines, and move to the line after them."""
        self._lines[-1:] = [*lines, ""]
        self.y = len(self._lines) - 1
        self.row = None

    def newline(self) -> None:
        """Move to the first column of the next row, which may belong to the same line (NEL, and LF)."""
        if not self._to_next_row():
            self._to_next_line()

    def index(self) -> None:
        """Move the cursor down and keep its column, and a pending wrap (IND, VT, FF)."""
        column, pending = self.column(), self.pending
        self.newline()
        self.x, self.pending = self.x + column + pending, pending

    def _to_next_row(self) -> bool:
        """Move to the start of the next row of a wrapped line; return False in its last row."""
        end = self._row_end()
        if self._row_count(self.y) * self.width <= end:
            return False
        self.row, self.x, self.pending = None, end, False
        return True

    def _to_next_line(self) -> None:
        self.row, self.x, self.pending = None, 0, False
        self.y += 1
        if self.y == len(self._lines) or self._insert_lines:
            self._lines.insert(self.y, "")

    def _row_count(self, y: int) -> int:
        """Return the number of rows that a line takes."""
        if len(self._lines[y]) <= self.width // _TAB_WIDTH:  # one row for any characters
            return 1
        return (len(self._cells_of_line(y)) - 1) // self.width + 1

    def save_cursor(self) -> None:
        """Save the cursor (DECSC)."""
        self._saved = self.y, self.x, self.pending

    def restore_cursor(self) -> None:
        """Restore the saved cursor (DECRC). Lines below it that were drawn after an address belong elsewhere on the screen."""
        if self._saved is not None:
            self._insert_lines = self.row is not None and not self._addressed
            self.y, self.x, self.pending = self._saved
            self._lines += [""] * (self.y + 1 - len(self._lines))  # rows that ED has removed
            self.row, self._addressed = None, False

    def address(self, row: int, column: int) -> None:
        """Address the cursor (CUP). In the row addressed last, move it; otherwise the next drawing begins a new line."""
        self._address_column = min(max(column, 0), self.width - 1)
        if row == self.row:
            self.to_column(column)
        else:
            self._addressed, self._previous_row, self.row = True, self.row, row

    def apply_address(self) -> None:
        """Begin a new line if the cursor was addressed to another row since the last drawing."""
        if self._addressed:
            row, self._addressed, self._insert_lines = self.row, False, False
            if not self.at_empty_line():
                self.y = len(self._lines) - 1
                self._to_next_line()
            self.row = row

    def erase_row(self) -> None:
        """Erase the row (EL 2). A device that first addresses a row and erases it removes the pager prompt in its last line."""
        if self._addressed and self._previous_row is None and self.row != 1:
            self._addressed = False
            self.to_column(0)
        else:
            self.apply_address()
        self.erase(0, None)

    def draw(self, text: str) -> None:
        at, self._erasing = 0, False
        while at < len(text):
            size = self._draw_run(text, at)
            if not size:
                self._draw_character(text[at])
            at += size or 1
        if self._erasing:
            self._drop_erased()

    def _draw_run(self, text: str, at: int) -> int:
        """Draw a run of one-column characters of `text` at once. Return their number; 0 if they must be drawn one by one."""
        line, room = self._line(), len(text)
        appending = self.x >= len(line)
        inserting = self.inserting and not appending
        if inserting or (appending and self._continues_below()):
            room = 0 if self.pending else self.width - self.column()
        elif not appending:
            room = len(line) - self.x
        found = (_NARROW if appending and not self._erasing else _NARROW_RUN).match(text, at, at + room)
        if found is None or not self.autowrap:
            return 0
        if 0 < self.x <= len(line) and line[self._cell_begin(line, self.x - 1)].endswith(ZERO_WIDTH_JOINER):
            return 0
        run: str | list[str] = found[0]
        if appending:
            self._fill(line)
        else:
            if inserting:
                self.insert(len(run))
            self._split(line, self.x)
            self._split(line, self.x + len(run))
        if found[0][0] == " ":
            run = self._blanks(line, len(run)) if self._erasing or not appending else run
        else:
            self._erasing = False
        line[self.x : self.x + len(run)] = run
        self.x += len(run)
        self.pending = self.x % self.width == 0
        return len(run)

    def _blanks(self, line: list[str], size: int) -> list[str]:
        """Return the cells of a run of blanks. Over text, the blanks erase: consoles remove their pager prompt in this way."""
        passed = 0
        if not self._erasing:
            passed = next((at for at, cell in enumerate(line[self.x : self.x + size]) if cell != _VOID), size)
            self._erasing = passed < size
        return [" "] * passed + [_VOID] * (size - passed)

    def _draw_character(self, character: str) -> None:
        """Draw a character of any width in any mode."""
        line = self._line()
        size = 1 if character < "\u0300" else cell_width(character)
        if self._join(line, character, size) or not 0 < size <= self.width:
            return
        if size == 2 and self.column() == self.width - 1:
            if not self.autowrap:
                return
            if not self.pending:
                self._pass_last_column(line)
        if self.pending:
            self._wrap(line)
            line = self._line()
        if self.inserting:
            self.insert(size)
        self._split(line, self.x)
        self._split(line, self.x + size)
        self._put(line, character)
        if size == 2:
            self._put(line, _FILLER)

    def _pass_last_column(self, line: list[str]) -> None:
        """Move past the last column, where a wide character does not fit. A character there stays."""
        if self.x < len(line) and line[self.x] != _VOID:
            self.x, self.pending = self.x + 1, True
        else:
            self._put(line, _PAD)

    def _wrap(self, line: list[str]) -> None:
        """Apply the pending wrap, or without autowrap stay on the last column."""
        self.pending = False
        if not self.autowrap:
            self.x -= 1
        elif self.x >= len(line) and self._continues_below():
            if self.x + len(self._cells_of_line(self.y + 1)) <= _JOINED_ROWS * self.width:
                self._join_next_line(line)
            else:
                self.y, self.x = self.y + 1, 0

    def _continues_below(self) -> bool:
        """Return whether the next row of the screen is the next line, into which text then wraps."""
        return self.y < len(self._lines) - 1 and not self._insert_lines

    def _join_next_line(self, line: list[str]) -> None:
        """Join the next line to the cursor's line, which wraps into it."""
        self._fill(line)
        self._move_saved(self.y + 1, 0, -1, self.x)
        line += self._cells_of_line(self.y + 1)
        del self._lines[self.y + 1]

    def _divide_line(self, line: list[str], end: int) -> None:
        """Make the rows after `end` a separate line: the row before no longer wraps."""
        self._move_saved(self.y, end, 1, -end)
        if 2 * end < len(line):  # copy the smaller part
            self._lines.insert(self.y, line[:end])
            del line[:end]
        else:
            self._lines.insert(self.y + 1, line[end:])
            del line[end:]
        self.redrawn = max(self.redrawn, len(self._lines) - 1 - self.y)

    def _move_saved(self, y: int, x: int, rows: int, columns: int) -> None:
        """Move a saved cursor in line `y` from column `x` on, or in a line below, with its text."""
        if self._saved is None:
            return
        saved_y, saved_x, pending = self._saved
        if saved_y == y and saved_x - pending >= x:
            self._saved = saved_y + rows, saved_x + columns, pending
        elif saved_y > y:
            self._saved = saved_y + rows, saved_x, pending

    def _join(self, line: list[str], character: str, size: int) -> bool:
        """Join a character to the cell before the cursor, if they form a cluster; return whether they do."""
        at = self.x - 1
        if at < 0 or character.isascii() or (size and at >= len(line)):
            return False
        self._fill(line)
        begin = self._cell_begin(line, at)
        if size and not line[begin].endswith(ZERO_WIDTH_JOINER):
            return False
        if line[begin] == "\t":
            self._blank(line, begin)
        else:
            at = begin
        line[at] = (" " if line[at] == _VOID else line[at]) + character
        return True

    def tab(self, count: int = 1) -> None:
        """Move to the next tab stops (HT, CHT). Over empty cells a tab is kept as a character."""
        line, column = self._line(), self.column()
        while count and column < self.width - 1:
            skip = min((column // _TAB_WIDTH + 1) * _TAB_WIDTH, self.width - 1) - column
            is_regular = self._tab_stop(column, 1) == column + skip  # as a reader expands the character
            if not is_regular or len(line) > self._row_end() or any(cell != _VOID for cell in line[self.x :]):
                self.to_column(self._tab_stop(column, count))
                return
            del line[self.x :]
            self._fill(line)
            line.extend(["\t", *[_FILLER] * (skip - 1)])
            column += skip
            self.x += skip
            count -= 1

    def back_tab(self, count: int) -> None:
        """Move back `count` tab stops (CBT)."""
        column = self.column()
        if self._stops is None:
            self.to_column(((column - 1) // _TAB_WIDTH - count + 1) * _TAB_WIDTH)
            return
        while count and column > 0:
            column, count = self._stops.rfind(1, 0, column), count - 1
        self.to_column(column)

    @property
    def has_default_tab_stops(self) -> bool:
        """Whether there is a tab stop at every eighth column, and at no other one."""
        return self._stops is None

    def set_tab_stop(self) -> None:
        """Set a tab stop at the cursor (HTS)."""
        self._change_tab_stop(1)

    def clear_tab_stop(self, how: int) -> None:
        """Clear the tab stop at the cursor (0), or all of them (3) (TBC)."""
        if how == 0:
            self._change_tab_stop(0)
        elif how == 3:
            self._stops = bytearray(self.width)

    def reset_tab_stops(self) -> None:
        """Set the default tab stops (RIS)."""
        self._stops = None

    def _change_tab_stop(self, value: int) -> None:
        stops = self._stops if self._stops is not None else bytearray(_default_tab_stops(self.width))
        stops[self._address_column if self._addressed else self.column()] = value
        self._set_tab_stops(stops)

    def _set_tab_stops(self, stops: bytearray) -> None:
        self._stops = None if stops == _default_tab_stops(self.width) else stops

    def _tab_stop(self, column: int, count: int) -> int:
        """Return the tab stop that is `count` stops after a column, at most the last column."""
        if self._stops is None:
            return min((column // _TAB_WIDTH + count) * _TAB_WIDTH, self.width - 1)
        while count and column >= 0:
            column, count = self._stops.find(1, column + 1), count - 1
        return column if column >= 0 else self.width - 1

    def column(self) -> int:
        """Return the column of the cursor in its row."""
        return self._cursor() % self.width

    def to_column(self, column: int) -> None:
        cursor = self._cursor()
        self.x = cursor - cursor % self.width + min(max(column, 0), self.width - 1)
        self.pending = False

    def up(self, rows: int) -> None:
        """Move the cursor up, at most to the first row (CUU). The rows of wrapped lines count."""
        rows = min(rows, _REACH_ROWS)
        row, column = divmod(self._cursor(), self.width)
        while rows > row and self.y:
            rows -= row + 1
            self.y -= 1
            row = self._row_count(self.y) - 1
        self.x = max(row - rows, 0) * self.width + column
        self._insert_lines = self.pending = False
        self.redrawn = max(self.redrawn, len(self._lines) - 1 - self.y)

    def down(self, rows: int) -> None:
        """Move the cursor down, at most to the last row (CUD). The rows of wrapped lines count."""
        rows, lines_below = min(rows, _REACH_ROWS), len(self._lines) - 1 - self.y
        row, column = divmod(self._cursor(), self.width)
        while rows > (rest := max(self._row_count(self.y) - 1 - row, 0)):
            if not lines_below:
                rows = rest
                break
            rows -= rest + 1
            lines_below -= 1
            self.y, self.row, row = self.y + 1, None, 0
            if self._insert_lines:
                self._lines.insert(self.y, "")
        if rows:
            self.row = None
        self.x, self.pending = (row + rows) * self.width + column, False

    def erase(self, begin: int, end: int | None) -> None:
        """Erase columns of the cursor's row, from `begin` to `end` (exclusive), or to the end of the row."""
        self._drop_wrap()
        line, cursor = self._line(), self.x
        row = cursor - cursor % self.width
        stop = min(len(line), row + (self.width if end is None else min(end, self.width)))
        self._split(line, row + begin)
        self._split(line, stop)
        for x in range(row + begin, stop):
            line[x] = _VOID
        if end is None and len(line) > row + self.width:
            self._divide_line(line, row + self.width)

    def erase_below(self) -> None:
        """Erase from the cursor to the end (ED 0). The cursor's row remains."""
        self._drop_wrap()
        line = self._line()
        self._split(line, self.x)
        line[self.x :] = [_VOID] if self.x else []
        del self._lines[self.y + 1 :]

    def delete(self, count: int) -> None:
        """Delete cells at the cursor; the rest of its row moves left (DCH)."""
        self._drop_wrap()
        line, cursor, end = self._line(), self.x, self._row_end()
        count = min(count, end - cursor)
        self._split(line, cursor)
        self._split(line, cursor + count)
        self._blank_tabs(line, cursor, end)
        if len(line) > end:
            line[cursor:end] = line[cursor + count : end] + [_VOID] * count
        else:
            del line[cursor : cursor + count]

    def insert(self, count: int) -> None:
        """Insert blanks at the cursor; cells moved past the end of its row are lost (ICH)."""
        self._drop_wrap()
        line, cursor, end = self._line(), self.x, self._row_end()
        if cursor < len(line):
            count = min(count, end - cursor)
            self._split(line, cursor)
            self._split(line, end - count)
            self._blank_tabs(line, cursor, end)
            line[cursor:end] = ([_VOID] * count + line[cursor:end])[: end - cursor]

    def _row_end(self) -> int:
        return (self._cursor() // self.width + 1) * self.width

    def _split(self, line: list[str], at: int) -> None:
        """Blank a wide character or a tab that spans the border before column `at`."""
        if not 0 < at < len(line) or line[at] != _FILLER:
            return
        self._blank(line, self._cell_begin(line, at))

    def _cell_begin(self, line: list[str], at: int) -> int:
        """Return the first column of the character, or of the tab, at a column."""
        while at and line[at] == _FILLER:
            at -= 1
        return at

    def _blank(self, line: list[str], begin: int) -> None:
        """Blank all columns of a wide character or of a tab."""
        end, wide = begin + 1, line[begin] != "\t"
        while end < len(line) and line[end] == _FILLER and not (wide and end == begin + 2):
            end += 1
        line[begin:end] = [_VOID] * (end - begin)

    def _blank_tabs(self, line: list[str], begin: int, end: int) -> None:
        """Blank the tabs between two columns: moved elsewhere, they would have another width."""
        for at in range(begin, min(end, len(line))):
            if line[at] == "\t":
                self._blank(line, at)

    def _drop_wrap(self) -> None:
        """Clear a pending wrap: the cursor is on the last column."""
        self.x, self.pending = self._cursor(), False

    def _cursor(self) -> int:
        return self.x - 1 if self.pending else self.x

    def _line(self) -> list[str]:
        return self._cells_of_line(self.y)

    def _cells_of_line(self, y: int) -> list[str]:
        line = self._lines[y]
        if isinstance(line, str):
            line = _cells(line, self.width)
            self._lines[y] = line
        return line

    def _fill(self, line: list[str]) -> None:
        line.extend([_VOID] * (self.x - len(line)))

    def _drop_erased(self) -> None:
        """Drop the blanks around an erased pager prompt in its row, which consoles do not overwrite."""
        line, end = self._line(), self._row_end()
        for begin in (self.x, end - self.width):
            if _is_blank(cells := line[begin:end]):
                line[begin:end] = [_VOID] * len(cells)

    def _put(self, line: list[str], cell: str) -> None:
        """Write a cell. A run of blanks that starts over text erases it: consoles remove their pager prompt in this way."""
        before = line[self.x] if self.x < len(line) else _VOID
        self._erasing = cell == " " and (self._erasing or before != _VOID)
        cell = _VOID if self._erasing else cell
        if self.x < len(line):
            line[self.x] = cell
        else:
            self._fill(line)
            line.append(cell)
        self.x += 1
        self.pending = self.x % self.width == 0


@lru_cache(maxsize=4)
def _default_tab_stops(width: int) -> bytes:
    return bytes(column % _TAB_WIDTH == 0 < column for column in range(width))


def _is_blank(cells: list[str]) -> bool:
    return all(cell in (" ", _VOID) for cell in cells)


def _cells(line: str, width: int) -> list[str]:
    """Return the cells of a plain line, as `UnboundedScreen.draw` and `tab` would write them into an empty line."""
    cells: list[str] = []
    may_join = False
    for narrow, cluster, wide, other in _CELL_PARTS.findall(line):
        if may_join:
            part = narrow or cluster or wide or other
            joined = "" if part[0].isascii() else cluster or part[0]
            if joined:
                _join_last(cells, joined)
                may_join = joined == ZERO_WIDTH_JOINER
                narrow, cluster, wide, other = narrow[1:], "", wide[1:], ""
            elif not other:
                may_join = False
        if narrow:
            cells += narrow
        elif wide:
            _append_wide(cells, wide, width)
        elif cluster:
            cells.append(cluster)
        elif other == "\t":
            column = len(cells) % width
            if column < width - 1 and (column or not cells):
                cells += ["\t", *[_FILLER] * (min((column // _TAB_WIDTH + 1) * _TAB_WIDTH, width - 1) - column - 1)]
                may_join = False
        elif not other:
            continue
        elif (size := cell_width(other)) > 0:
            may_join = False
            if size == 2:
                _append_wide(cells, other, width)
            else:
                cells.append(other)
        elif size == 0 and cells:
            _join_last(cells, other)
            may_join = other == ZERO_WIDTH_JOINER
    return cells


def _append_wide(cells: list[str], characters: str, width: int) -> None:
    """Append wide characters; one that does not fit its row wraps as a whole. With one column none is drawn."""
    if width < 2:
        return
    if len(characters) == 1 and len(cells) % width < width - 1:
        cells.append(characters)
        cells.append(_FILLER)
        return
    while characters:
        room = width - len(cells) % width
        if room == 1:
            cells.append(_PAD)
        else:
            cells += _FILLER.join(characters[: room // 2]) + _FILLER
            characters = characters[room // 2 :]


def _join_last(cells: list[str], text: str) -> None:
    """Join text to the last cell."""
    begin = len(cells) - 1
    while begin and cells[begin] == _FILLER:
        begin -= 1
    if cells[begin] == "\t":
        cells[begin:] = [*[_VOID] * (len(cells) - begin - 1), " "]
        begin = len(cells) - 1
    cells[begin] += text


def _joined(cells: list[str]) -> str:
    end = len(cells)
    while end and cells[end - 1] in (_VOID, _PAD):
        end -= 1
    return _text_of_cells(cells[:end])


def _text_of_cells(cells: list[str]) -> str:
    if _PAD in cells:  # padding is explained only by a wide character after it
        cells = [" " if cell == _PAD and cells[at + 2 : at + 3] != [_FILLER] else cell for at, cell in enumerate(cells)]
    return "".join(cells).replace(_VOID, " ").replace(_FILLER, "").replace(_PAD, "")


class Renderer:
    """Renders raw bytes piece by piece; ignores unknown sequences. With `take` the memory is bounded.

    `width` is the initial width. `alternate` includes the text of the alternate screen.
    """

    def __init__(self, width: int, *, alternate: bool = False) -> None:
        self._screen = UnboundedScreen(width)
        self._keep_alternate = alternate
        self._alternate = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._widths: deque[int] = deque()  # of the resize marks in the held text
        self._held = ""  # an incomplete line
        self._partial = 0  # where the incomplete sequence at its end begins
        self._body: re.Pattern[str] | None = None  # of that sequence, unless it ends with ESC
        self._continued: list[str] = []  # more of the body, which is not searched again
        self._room = 0  # for more
        self._in_line = False  # a part of the line is drawn
        self._last = ""  # the character that REP repeats
        self._charsets = "BB0"  # of G0 and G1, and which of them is in use
        self._saved_charsets = self._charsets

    def feed(self, data: bytes) -> None:
        """Render bytes. An incomplete line is held back, up to a limit."""
        text = self._decoder.decode(data)
        if self._body is not None and len(text) <= self._room and self._body.fullmatch(text):
            self._continued.append(text)
            self._room -= len(text)
            return
        text = self._take_held() + text
        end = _partial_begin(text)
        complete, partial = _without_strings(text[:end]), text[end:]
        cut = complete.rfind("\n") + 1
        if len(complete) - cut > _LINE_LIMIT:
            cut = len(complete)
        if len(partial) > _STRING_LIMIT:
            partial = ""  # as in the spool, the rest of the string is text
        self._held, self._partial = complete[cut:] + partial, len(complete) - cut
        self._room = _STRING_LIMIT - len(partial)
        self._body = None if partial.endswith("\x1b") or not partial else _BODIES.get(partial[1], _ESCAPE_BODY)
        self._draw(complete[:cut])

    def resize(self, width: int) -> None:
        """Change the width from here on. Within a sequence or a character, change it before them."""
        self._widths.append(width)
        self._held = f"{self._held[: self._partial]}{_RESIZE}{self._held[self._partial :]}"
        self._partial += 1

    def take(self) -> str:
        """Remove and return the final text: it is more rows above the end than any terminal is high."""
        return self._screen.settle(_REACH_ROWS)

    def unchanging_lines(self) -> str:
        """Return the complete lines after the text that was taken, without those that are being redrawn."""
        screen = self._screen
        if "\x1b" in self._held:  # the incomplete line may move up
            ahead = copy.deepcopy(self)
            ahead.finish()
            screen = ahead._screen
        return screen.unchanging_lines()

    def finish(self) -> str:
        """End the input, and return the text that was not taken."""
        text = _without_strings(self._take_held() + self._decoder.decode(b"", True))
        self._draw(_INVISIBLE_AT_END.sub(_resizes_alone, text), ended=True)
        return self._screen.text()

    def cursor_line(self) -> str:
        """Return the line that the cursor is in, as far as it is drawn."""
        return self._screen.cursor_line()

    def text_before_cursor(self) -> str:
        """Return the line that the cursor is in, up to the cursor."""
        return self._screen.text_before_cursor()

    def _take_held(self) -> str:
        held = "".join([self._held, *self._continued])
        self._held = ""
        self._continued.clear()
        return held

    def _draw(self, text: str, *, ended: bool = False) -> None:
        """Draw lines, and a part of a long line or, with `ended`, the last line."""
        plain = text.replace("\r\n", "\n")
        if self._at_empty_line() and _RESIZE not in plain and not _CONTROL.search(plain):
            *lines, rest = plain.split("\n")
            self._screen.keep_lines(lines)
        else:
            *lines, rest = text.split("\n")
            for line in lines:
                if (kept := self._plain_line(line)) is not None:
                    self._screen.keep_lines([kept])
                else:
                    self._tokens(line)
                    self._newline()
        if ended and (kept := self._plain_line(rest)) is not None:
            self._screen.keep(kept)
        elif ended:
            self._tokens(rest)
        elif rest:
            self._tokens(rest)
            self._in_line = True

    def _at_empty_line(self) -> bool:
        plain = self._screen.autowrap and self._screen.has_default_tab_stops and not self._draws_lines()
        return plain and not self._alternate and not self._in_line and self._screen.at_empty_line()

    def _draws_lines(self) -> bool:
        """Return whether characters are drawn as DEC special graphics."""
        return self._charsets[int(self._charsets[2])] == "0"

    def _newline(self) -> None:
        self._in_line = False
        if not self._alternate:
            self._screen.apply_address()
            self._screen.newline()

    def _plain_line(self, line: str) -> str | None:
        """Return the text of a line that need not be drawn, and apply the resizes in it; otherwise None."""
        plain = line.replace(_RESIZE, "").rstrip("\r")
        if not self._at_empty_line() or _CONTROL.search(plain):
            return None
        for _ in range(line.count(_RESIZE)):
            self._screen.resize(self._widths.popleft())
        return plain

    def _tokens(self, line: str) -> None:
        for token in _TOKEN.finditer(line):
            last, self._last = self._last, ""
            if token.lastgroup == "text":
                self._text(token[0])
            elif token.lastgroup == "c0":
                self._control(token[0])
            elif token.lastgroup == "escape":
                self._escape(token["escape"])
            elif token.lastgroup == "final":
                self._control_sequence(token["final"], token["private"], token["args"], last)
            elif token[0] == _RESIZE:
                self._screen.resize(self._widths.popleft())
                self._last = last

    def _text(self, text: str) -> None:
        if self._alternate:
            return
        if not text.isprintable():
            self._last = text[-1] if ord(text[-1]) not in _NO_CONTROLS else ""
            text = text.translate(_NO_CONTROLS)
        else:
            self._last = text[-1]
        if text:
            self._screen.apply_address()
            self._screen.draw(text.translate(SPECIAL_GRAPHICS) if self._draws_lines() else text)

    def _control(self, control: str) -> None:
        if control in _SHIFTS:
            self._charsets = self._charsets[:2] + _SHIFTS[control]
        elif control in _C0 and not self._alternate:
            self._screen.apply_address()
            _C0[control](self._screen)

    def _escape(self, escape: str) -> None:
        if escape[0] in "()":
            which, name = "()".index(escape[0]), escape[1:]
            self._charsets = f"{self._charsets[:which]}{name}{self._charsets[which + 1 :]}"
        elif escape == "c":
            self._screen.reset_tab_stops()
        elif self._alternate:
            return
        elif escape == "H":
            self._screen.set_tab_stop()
        elif escape in "78":
            self._save_or_restore(restore=escape == "8")
        elif escape in _ESCAPES:
            self._screen.apply_address()
            _ESCAPES[escape](self._screen)

    def _control_sequence(self, final: str, private: str, args: str, last: str) -> None:
        screen = self._screen
        if private:
            self._set_private_modes(args.split(";"), final)
        elif final in "hl" and 4 in _numbers(args):
            screen.inserting = final == "h"
        elif self._alternate:
            return
        elif final in "Hf":
            row, column = (*_numbers(args), None, None)[:2]
            screen.address(row or 1, (column or 1) - 1)
        elif final == "g":
            screen.clear_tab_stop(_numbers(args)[0] or 0)
        elif final == "K" and _numbers(args)[0] == 2:
            screen.erase_row()
        elif final == "b" and last:
            count = min(_numbers(args)[0] or 1, screen.width)
            screen.draw(last.translate(SPECIAL_GRAPHICS) * count if self._draws_lines() else last * count)
        elif final in "su":
            self._save_or_restore(restore=final == "u")
        elif final in _CSI:
            screen.apply_address()
            _CSI[final](screen, _numbers(args)[0])

    def _set_private_modes(self, numbers: list[str], final: str) -> None:
        if final not in "hl":
            return
        if "7" in numbers:
            self._screen.autowrap = final == "h"
        if "1048" in numbers and not self._alternate:
            self._save_or_restore(restore=final == "l")
        if _ALTERNATE_SCREEN.intersection(numbers):
            self._alternate = final == "h" and not self._keep_alternate

    def _save_or_restore(self, *, restore: bool) -> None:
        """Save or restore the cursor and the character sets (DECSC, DECRC)."""
        if restore:
            self._charsets = self._saved_charsets
            self._screen.restore_cursor()
        else:
            self._saved_charsets = self._charsets
            self._screen.apply_address()
            self._screen.save_cursor()


def _without_strings(text: str) -> str:
    """Remove string sequences, which may contain line feeds, attributes and queries."""
    return _INVISIBLE.sub("", _STRINGS.sub("", text)) if "\x1b" in text else text


def _resizes_alone(found: re.Match[str]) -> str:
    return _RESIZE * found[0].count(_RESIZE)


def _partial_begin(text: str) -> int:
    """Return where the incomplete sequence at the end of a text begins, or the text's length."""
    last = text.rfind("\x1b")
    if last == len(text) - 1:  # may be the first half of ST
        last = max(text.rfind("\x1b", 0, last), 0)
    found = _PARTIAL.search(text, last) if last >= 0 else None
    return len(text) if found is None else found.start()


def _numbers(args: str) -> list[int | None]:
    return [int(number[:6]) if number else None for number in args.split(";")]


def _erase_in_line(screen: UnboundedScreen, how: int | None) -> None:
    column = screen.column()
    begin, end = {None: (column, None), 0: (column, None), 1: (0, column + 1)}.get(how, (0, 0))
    screen.erase(begin, end)


def _erase_in_display(screen: UnboundedScreen, how: int | None) -> None:
    """Erase below the cursor (ED 0). Erasing the whole screen keeps its lines: they were shown."""
    if not how:
        screen.erase_below()


_C0: dict[str, Callable[[UnboundedScreen], None]] = {
    "\b": lambda screen: screen.to_column(screen.column() - 1),
    "\t": UnboundedScreen.tab,
    "\r": lambda screen: screen.to_column(0),
    "\v": UnboundedScreen.index,
    "\f": UnboundedScreen.index,
}
_SHIFTS = {"\x0e": "1", "\x0f": "0"}
_ESCAPES: dict[str, Callable[[UnboundedScreen], None]] = {
    "D": UnboundedScreen.index,
    "E": UnboundedScreen.newline,
    "M": lambda screen: screen.up(1),
}
_CSI: dict[str, Callable[[UnboundedScreen, int | None], None]] = {
    "A": lambda screen, n: screen.up(n or 1),
    "B": lambda screen, n: screen.down(n or 1),
    "C": lambda screen, n: screen.to_column(screen.column() + (n or 1)),
    "D": lambda screen, n: screen.to_column(screen.column() - (n or 1)),
    "G": lambda screen, n: screen.to_column((n or 1) - 1),
    "J": _erase_in_display,
    "K": _erase_in_line,
    "P": lambda screen, n: screen.delete(n or 1),
    "@": lambda screen, n: screen.insert(n or 1),
    "I": lambda screen, n: screen.tab(n or 1),
    "X": lambda screen, n: screen.erase(screen.column(), screen.column() + (n or 1)),
    "Z": lambda screen, n: screen.back_tab(n or 1),
    "`": lambda screen, n: screen.to_column((n or 1) - 1),
    "a": lambda screen, n: screen.to_column(screen.column() + (n or 1)),
}

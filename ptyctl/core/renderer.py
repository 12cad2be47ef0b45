"""Raw terminal bytes to rendered text: what a terminal of that width and unlimited height shows.

Carriage returns, backspaces, erase functions and cursor motions are applied, attributes dropped, and wrapped lines joined. The
alternate screen leaves no text unless requested. A line without controls passes byte for byte, so exact output stays exact.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable

from wcwidth import wcwidth

from .control_sequences import CSI_FINAL, ESC, SEQUENCE, STRING_SEQUENCE, sequence_end

#: A surrogate that marks a resize in the text; decoding UTF-8 never produces it.
_RESIZE = "\udc00"
_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_STRINGS = re.compile(STRING_SEQUENCE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LINE_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_UNLIMITED_WIDTH = 1 << 30
_TOKEN = re.compile(
    rf"(?P<text>[^\x00-\x1f\x7f{_RESIZE}]+)|{_RESIZE}"
    rf"|\x1b\[(?P<private>\??)(?P<args>[0-9;]*)[\x20-\x3f]*(?P<final>{CSI_FINAL})"
    rf"|{SEQUENCE}"
    r"|(?P<c0>[\x00-\x1f\x7f])"
)
_ALTERNATE_SCREEN = {"47", "1047", "1049"}
_TAB_WIDTH = 8
#: A cell that was never written or was erased: a blank within a line, nothing at its end.
_VOID = ""
#: The second column of a wide character, or a column that a tab skipped.
_FILLER = "\0"


def render(data: bytes, width: int, resizes: Iterable[tuple[int, int]] = (), *, alternate: bool = False) -> str:
    """Return the rendered text of `data`, with LF between lines.

    `resizes` are ascending offsets into `data`, each with the width from there on. Bytes that are not UTF-8 become U+FFFD.
    `alternate` includes the text of the alternate screen.
    """
    pieces, columns, begin = [], [], 0
    for offset, new_width in resizes:
        end = max(_boundary(data, offset), begin)
        pieces.append(data[begin:end].decode("utf-8", "replace"))
        columns.append(new_width)
        begin = end
    text = _RESIZE.join([*pieces, (data[begin:] if begin else data).decode("utf-8", "replace")])
    if "\x1b" in text:
        text = _SGR.sub("", _STRINGS.sub("", text))
    plain = text.replace("\r\n", "\n")
    if not _CONTROL.search(plain):
        return plain.replace(_RESIZE, "")
    renderer = _Renderer(width, columns, alternate)
    for number, line in enumerate(text.split("\n")):
        if number:
            renderer.newline()
        renderer.line(line)
    return renderer.screen.text()


def render_line(line: bytes) -> str:
    """Return one line as a terminal of unlimited width shows it, for example without an erased pager prompt."""
    return render(line, _UNLIMITED_WIDTH, alternate=True) if _LINE_CONTROL.search(line) else line.decode("utf-8", "replace")


def _boundary(data: bytes, offset: int) -> int:
    """Return the first offset at or after `offset` that is not within a sequence or a character."""
    begin = data.rfind(ESC, 0, offset)
    if begin >= 0:
        offset = max(offset, sequence_end(data, begin))
    while offset < len(data) and data[offset] & 0xC0 == 0x80:
        offset += 1
    return offset


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

    `x` and `y` are the cursor, 0-based; `x` counts along the logical line. `pending` is the pending wrap: the cursor is after
    the last column and wraps before the next character (DEC STD 070). `row` is the 1-based row of the last cursor address until
    a line feed; it only identifies whether two addresses are in the same line.
    """

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self.y = 0
        self.x = 0
        self.pending = False
        self.row: int | None = None
        self._previous_row: int | None = None  # `row` before the last address, while nothing was drawn there
        self._addressed = False
        self._erasing = False
        self._lines: list[str | list[str]] = [""]

    def text(self) -> str:
        return "\n".join(line if isinstance(line, str) else _joined(line) for line in self._lines)

    def resize(self, width: int) -> None:
        """Change the width and wrap lines accordingly; the cursor stays after the same character."""
        self.width = max(1, width)
        self.pending = self.pending and self.x % self.width == 0

    def at_empty_line(self) -> bool:
        """Whether the cursor is on an empty last line, where `keep` can store a plain line."""
        return self.x == 0 and self.y == len(self._lines) - 1 and not self._lines[self.y]

    def keep(self, line: str) -> None:
        self._lines[self.y] = line

    def newline(self) -> None:
        self.row = None
        self.y += 1
        self.x = 0
        self.pending = False
        if self.y == len(self._lines):
            self._lines.append("")

    def address(self, row: int, column: int) -> None:
        """Address the cursor (CUP). In the row addressed last, move it; otherwise the next drawing begins a new line."""
        if row == self.row:
            self.to_column(column)
        else:
            self._addressed, self._previous_row, self.row = True, self.row, row

    def apply_address(self) -> None:
        """Begin a new line if the cursor was addressed to another row since the last drawing."""
        if self._addressed:
            row, self._addressed = self.row, False
            if not self.at_empty_line():
                self.down(1 << 30)
                self.newline()
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
        line = self._line()
        self._erasing = False
        for character in text:
            size = 1 if character < "\u0300" else wcwidth(character)
            if size > 0:
                self._put(line, character)
                for _ in range(size - 1):
                    self._put(line, _FILLER)
            elif self.x and self.x <= len(line):  # a combining character joins the cell before it
                line[self.x - 1] += character
        if self._erasing:
            self._drop_erased(line)

    def tab(self) -> None:
        """Move to the next tab stop (HT). Over empty cells the tab is kept as a character."""
        line, column = self._line(), self.column()
        skip = max(min((column // _TAB_WIDTH + 1) * _TAB_WIDTH, self.width - 1) - column, 1)
        if all(cell == _VOID for cell in line[self.x :]):
            del line[self.x :]
            self._fill(line)
            line.extend(["\t", *[_FILLER] * (skip - 1)])
        self.x += skip
        self.pending = False

    def column(self) -> int:
        """Return the column of the cursor in its row."""
        return self._cursor() % self.width

    def to_column(self, column: int) -> None:
        cursor = self._cursor()
        self.x = cursor - cursor % self.width + min(max(column, 0), self.width - 1)
        self.pending = False

    def up(self, rows: int) -> None:
        """Move the cursor up, at most to the first row (CUU). The rows of wrapped lines count."""
        for _ in range(min(rows, self.y + self._cursor() // self.width)):
            column, cursor = self.column(), self._cursor()
            if cursor >= self.width:
                self.x = cursor - self.width
            else:
                self.y -= 1
                self.x = max(len(self._line()) - 1, 0) // self.width * self.width + column
            self.pending = False

    def down(self, rows: int) -> None:
        """Move the cursor down, at most to the last line (CUD)."""
        column = self.column()
        for _ in range(min(rows, len(self._lines) - 1 - self.y)):
            self.newline()
        self.x = column

    def erase(self, begin: int, end: int | None) -> None:
        """Erase columns of the cursor's row, from `begin` to `end` (exclusive), or to the end of the row."""
        line, cursor = self._line(), self._cursor()
        row = cursor - cursor % self.width
        stop = min(len(line), row + (self.width if end is None else end))
        for x in range(row + begin, stop):
            line[x] = _VOID

    def erase_below(self) -> None:
        del self._line()[self._cursor() :]
        del self._lines[self.y + 1 :]

    def delete(self, count: int) -> None:
        cursor = self._cursor()
        del self._line()[cursor : cursor + count]

    def insert(self, count: int) -> None:
        line, cursor = self._line(), self._cursor()
        if cursor < len(line):
            line[cursor:cursor] = [_VOID] * min(count, self.width)

    def _cursor(self) -> int:
        return self.x - 1 if self.pending else self.x

    def _line(self) -> list[str]:
        line = self._lines[self.y]
        if isinstance(line, str):
            line = _cells(line)
            self._lines[self.y] = line
        return line

    def _fill(self, line: list[str]) -> None:
        line.extend([_VOID] * (self.x - len(line)))

    def _drop_erased(self, line: list[str]) -> None:
        """Drop the blanks around an erased pager prompt, which consoles do not overwrite."""
        if _is_blank(line[self.x :]):
            del line[self.x :]
        if _is_blank(line):
            line[:] = [_VOID] * len(line)

    def _put(self, line: list[str], cell: str) -> None:
        """Write a cell. A run of blanks that starts over text erases it: that is how consoles remove their pager prompt."""
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


def _is_blank(cells: list[str]) -> bool:
    return all(cell in (" ", _VOID) for cell in cells)


def _cells(line: str) -> list[str]:
    screen = UnboundedScreen(1 << 30)
    cells: list[str] = []
    screen._lines[0] = cells
    for number, piece in enumerate(line.split("\t")):
        if number:
            screen.tab()
        screen.draw(piece)
    return cells


def _joined(cells: list[str]) -> str:
    end = len(cells)
    while end and cells[end - 1] == _VOID:
        end -= 1
    return "".join(" " if cell == _VOID else cell for cell in cells[:end]).replace(_FILLER, "")


class _Renderer:
    """Applies lines to a screen; ignores unknown sequences. `widths` are those of the resize marks in the text, in order."""

    def __init__(self, width: int, widths: Iterable[int], keep_alternate: bool) -> None:
        self.screen = UnboundedScreen(width)
        self._widths = iter(widths)
        self._keep_alternate = keep_alternate
        self._alternate = False

    def newline(self) -> None:
        if not self._alternate:
            self.screen.apply_address()
            self.screen.newline()

    def line(self, line: str) -> None:
        plain = line.replace(_RESIZE, "").rstrip("\r")
        if not self._alternate and self.screen.at_empty_line() and not _CONTROL.search(plain):
            self.screen.keep(plain)
            for _ in range(line.count(_RESIZE)):
                self.screen.resize(next(self._widths))
            return
        for token in _TOKEN.finditer(line):
            self._token(token)

    def _token(self, token: re.Match[str]) -> None:
        if token["final"] and token["private"]:
            if _ALTERNATE_SCREEN.intersection(token["args"].split(";")) and token["final"] in "hl":
                self._alternate = token["final"] == "h" and not self._keep_alternate
        elif token[0] == _RESIZE:
            self.screen.resize(next(self._widths))
        elif self._alternate:
            return
        elif token["final"] in ("H", "f"):
            row, column = (*_numbers(token["args"]), None, None)[:2]
            self.screen.address(row or 1, (column or 1) - 1)
        elif token["final"] == "K" and _numbers(token["args"])[0] == 2:
            self.screen.erase_row()
        elif token["text"]:
            self.screen.apply_address()
            self.screen.draw(token["text"])
        elif token["c0"] in _C0:
            self.screen.apply_address()
            _C0[token["c0"]](self.screen)
        elif token["final"] in _CSI:
            self.screen.apply_address()
            _CSI[token["final"]](self.screen, _numbers(token["args"])[0])


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
    "\v": UnboundedScreen.newline,
    "\f": UnboundedScreen.newline,
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
    "X": lambda screen, n: screen.erase(screen.column(), screen.column() + (n or 1)),
}

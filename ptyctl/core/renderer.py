"""Raw terminal bytes to the text that a person would have read (CONTRACTS, blocks).

As a terminal of that width and endless height would show it: carriage returns, backspaces, erases and cursor moves are
resolved, attributes dropped, wrapped lines whole again; the alternate screen leaves nothing, unless it is asked for. A line
with none of these passes byte for byte, so exact output stays exact.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable

from wcwidth import wcwidth

from .control_sequences import ESC
from .normaliser import SEQUENCE

#: Stands in the text where the terminal was resized: no UTF-8 becomes this.
_RESIZE = "\udc00"
_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TOKEN = re.compile(
    rf"(?P<text>[^\x00-\x1f\x7f{_RESIZE}]+)|{_RESIZE}"
    r"|\x1b\[(?P<private>\??)(?P<args>[0-9;]*)[\x20-\x3f]*(?P<final>[\x40-\x7e])"
    r"|\x1b\][^\x07\x18\x1a\x1b]*(?:[\x07\x18\x1a]|\x1b\\)?"
    r"|\x1b[PX^_][^\x18\x1a\x1b]*(?:[\x18\x1a]|\x1b\\)?"
    r"|\x1b(?:\[[\x20-\x3f]*|[\x20-\x2f]*[\x30-\x7e]?)"
    r"|(?P<c0>[\x00-\x1f\x7f])",
    re.DOTALL,
)
_STRINGS = re.compile(
    r"\x1b(?:\][^\x07\x18\x1a\x1b]*(?:[\x07\x18\x1a]|\x1b\\)?|[PX^_][^\x18\x1a\x1b]*(?:[\x18\x1a]|\x1b\\)?)", re.DOTALL
)
_ALTERNATE_SCREEN = {"47", "1047", "1049"}


_TAB_STOP = 8
#: Shows nothing: never written, or erased. A blank in the middle of a line, nothing at its end.
VOID = ""
#: The second column of a wide character, or one that a tab skipped.
_FILLER = "\0"


class UnboundedScreen:
    """Logical lines, each as long as it was written: where it is longer than `width`, the terminal has wrapped it.

    `x` and `y` are the cursor, 0-based; `x` counts along the whole logical line. `pending` is the state behind the last
    column, before the next character wraps (DEC STD 070, autowrap). `row` is the screen's row that the cursor was last sent to,
    1-based, until a line feed: paper has none, so it only tells whether two places are in one line.
    """

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self.y = 0
        self.x = 0
        self.pending = False
        self.row: int | None = None
        self._sent_from: int | None = None  # `row` before the cursor was sent to another one, where nothing was drawn yet
        self._sent = False
        self._erasing = False
        self._lines: list[str | list[str]] = [""]

    def text(self) -> str:
        return "\n".join(line if isinstance(line, str) else _shown(line) for line in self._lines)

    def resize(self, width: int) -> None:
        """Lines that have wrapped are wrapped anew; the cursor stays behind the same character."""
        self.width = max(1, width)
        self.pending = self.pending and self.x % self.width == 0

    def fresh(self) -> bool:
        """Whether the cursor is on an empty last line, where a plain line can be kept as it is."""
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

    def place(self, row: int, column: int) -> None:
        """Sends the cursor to a place on the screen: within the line where it is in that row already."""
        if row == self.row:
            self.to_column(column)
        else:
            self._sent, self._sent_from, self.row = True, self.row, row

    def settle(self) -> None:
        """What is drawn at a place of its own begins a line."""
        if self._sent:
            row, self._sent = self.row, False
            if not self.fresh():
                self.down(1 << 30)
                self.newline()
            self.row = row

    def erase_row(self) -> None:
        """Empties the row that the cursor is in. A device that sends it to a row's begin and empties that first means the one
        that it has written last: so it takes its pager away."""
        if self._sent and self._sent_from is None and self.row != 1:
            self._sent = False
            self.to_column(0)
        else:
            self.settle()
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
            elif self.x and self.x <= len(line):  # combining: it joins the cell before
                line[self.x - 1] += character
        if self._erasing:
            self._erased(line)

    def tab(self) -> None:
        """Over nothing a tab stays a tab; over text it only moves the cursor."""
        line, column = self._line(), self.column()
        skip = max(min((column // _TAB_STOP + 1) * _TAB_STOP, self.width - 1) - column, 1)
        if all(cell == VOID for cell in line[self.x :]):
            del line[self.x :]
            self._fill(line)
            line.extend(["\t", *[_FILLER] * (skip - 1)])
        self.x += skip
        self.pending = False

    def column(self) -> int:
        """The cursor's column in its row."""
        return self._cursor() % self.width

    def to_column(self, column: int) -> None:
        cursor = self._cursor()
        self.x = cursor - cursor % self.width + min(max(column, 0), self.width - 1)
        self.pending = False

    def up(self, rows: int) -> None:
        """At most to the first row; as far as lines have wrapped, their rows count."""
        for _ in range(min(rows, self.y + self._cursor() // self.width)):
            column, cursor = self.column(), self._cursor()
            if cursor >= self.width:
                self.x = cursor - self.width
            else:
                self.y -= 1
                self.x = max(len(self._line()) - 1, 0) // self.width * self.width + column
            self.pending = False

    def down(self, rows: int) -> None:
        column = self.column()
        for _ in range(min(rows, len(self._lines) - 1 - self.y)):
            self.newline()
        self.x = column

    def erase(self, begin: int, end: int | None) -> None:
        """Empties columns of the present row, from `begin` to before `end`, or to the row's end."""
        line, cursor = self._line(), self._cursor()
        row = cursor - cursor % self.width
        stop = min(len(line), row + (self.width if end is None else end))
        for x in range(row + begin, stop):
            line[x] = VOID

    def erase_below(self) -> None:
        del self._line()[self._cursor() :]
        del self._lines[self.y + 1 :]

    def delete(self, count: int) -> None:
        cursor = self._cursor()
        del self._line()[cursor : cursor + count]

    def insert(self, count: int) -> None:
        line, cursor = self._line(), self._cursor()
        if cursor < len(line):
            line[cursor:cursor] = [VOID] * min(count, self.width)

    def _cursor(self) -> int:
        return self.x - 1 if self.pending else self.x

    def _line(self) -> list[str]:
        line = self._lines[self.y]
        if isinstance(line, str):
            line = _cells(line)
            self._lines[self.y] = line
        return line

    def _fill(self, line: list[str]) -> None:
        line.extend([VOID] * (self.x - len(line)))

    def _erased(self, line: list[str]) -> None:
        """Consoles leave the blanks at the ends of their pager's prompt as they are."""
        if _blank(line[self.x :]):
            del line[self.x :]
        if _blank(line):
            line[:] = [VOID] * len(line)

    def _put(self, line: list[str], cell: str) -> None:
        """A run of blanks that begins over something is how consoles erase their pager: it leaves no blanks behind."""
        over = line[self.x] if self.x < len(line) else VOID
        self._erasing = cell == " " and (self._erasing or over != VOID)
        cell = VOID if self._erasing else cell
        if self.x < len(line):
            line[self.x] = cell
        else:
            self._fill(line)
            line.append(cell)
        self.x += 1
        self.pending = self.x % self.width == 0


def _blank(cells: list[str]) -> bool:
    return all(cell in (" ", VOID) for cell in cells)


def _cells(line: str) -> list[str]:
    page = UnboundedScreen(1 << 30)
    cells: list[str] = []
    page._lines[0] = cells
    for number, piece in enumerate(line.split("\t")):
        if number:
            page.tab()
        page.draw(piece)
    return cells


def _shown(cells: list[str]) -> str:
    end = len(cells)
    while end and cells[end - 1] == VOID:
        end -= 1
    return "".join(" " if cell == VOID else cell for cell in cells[:end]).replace(_FILLER, "")


def render(data: bytes, width: int, resizes: Iterable[tuple[int, int]] = (), *, alternate: bool = False) -> str:
    """The text of `data`, lines ended by one LF, and by none where the output ended without.

    `resizes` are offsets into `data`, ascending, and the width from there on. Bytes that are no UTF-8 become U+FFFD.
    `alternate` keeps what the alternate screen showed.
    """
    pieces, columns, begin = [], [], 0
    for offset, width_then in resizes:
        end = max(_boundary(data, offset), begin)
        pieces.append(data[begin:end].decode("utf-8", "replace"))
        columns.append(width_then)
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
    return renderer.page.text()


def _boundary(data: bytes, offset: int) -> int:
    """The first place at or behind an offset that is within no sequence and no character."""
    begin = data.rfind(ESC, 0, offset)
    found = SEQUENCE.match(data, begin) if begin >= 0 else None
    offset = max(offset, found.end()) if found else offset
    while offset < len(data) and data[offset] & 0xC0 == 0x80:
        offset += 1
    return offset


class _Renderer:
    """Applies tokens to a page; what it does not know, it drops. `widths` are those of the resizes to come."""

    def __init__(self, width: int, widths: Iterable[int], keep_alternate: bool) -> None:
        self.page = UnboundedScreen(width)
        self._widths = iter(widths)
        self._keep_alternate = keep_alternate
        self._alternate = False

    def newline(self) -> None:
        if not self._alternate:
            self.page.settle()
            self.page.newline()

    def line(self, line: str) -> None:
        plain = line.replace(_RESIZE, "").rstrip("\r")
        if not self._alternate and self.page.fresh() and not _CONTROL.search(plain):
            self.page.keep(plain)
            for _ in range(line.count(_RESIZE)):
                self.page.resize(next(self._widths))
            return
        for token in _TOKEN.finditer(line):
            self._token(token)

    def _token(self, token: re.Match[str]) -> None:
        if token["final"] and token["private"]:
            if _ALTERNATE_SCREEN.intersection(token["args"].split(";")) and token["final"] in "hl":
                self._alternate = token["final"] == "h" and not self._keep_alternate
        elif token[0] == _RESIZE:
            self.page.resize(next(self._widths))
        elif self._alternate:
            return
        elif token["final"] in ("H", "f"):
            row, column = (*_numbers(token["args"]), None, None)[:2]
            self.page.place(row or 1, (column or 1) - 1)
        elif token["final"] == "K" and _numbers(token["args"])[0] == 2:
            self.page.erase_row()
        elif token["text"]:
            self.page.settle()
            self.page.draw(token["text"])
        elif token["c0"] in _C0:
            self.page.settle()
            _C0[token["c0"]](self.page)
        elif token["final"] in _CSI:
            self.page.settle()
            _CSI[token["final"]](self.page, _numbers(token["args"])[0])


def _numbers(args: str) -> list[int | None]:
    return [int(number[:6]) if number else None for number in args.split(";")]


def _backspace(page: UnboundedScreen) -> None:
    page.to_column(page.column() - 1)


def _erase_line(page: UnboundedScreen, how: int | None) -> None:
    column = page.column()
    begin, end = {None: (column, None), 0: (column, None), 1: (0, column + 1)}.get(how, (0, 0))
    page.erase(begin, end)


def _erase_screen(page: UnboundedScreen, how: int | None) -> None:
    if not how:  # a whole screen that is cleared was shown before: its lines stay
        page.erase_below()


_C0: dict[str, Callable[[UnboundedScreen], None]] = {
    "\b": _backspace,
    "\t": UnboundedScreen.tab,
    "\r": lambda page: page.to_column(0),
    "\v": UnboundedScreen.newline,
    "\f": UnboundedScreen.newline,
}
_CSI: dict[str, Callable[[UnboundedScreen, int | None], None]] = {
    "A": lambda page, n: page.up(n or 1),
    "B": lambda page, n: page.down(n or 1),
    "C": lambda page, n: page.to_column(page.column() + (n or 1)),
    "D": lambda page, n: page.to_column(page.column() - (n or 1)),
    "G": lambda page, n: page.to_column((n or 1) - 1),
    "J": _erase_screen,
    "K": _erase_line,
    "P": lambda page, n: page.delete(n or 1),
    "@": lambda page, n: page.insert(n or 1),
    "X": lambda page, n: page.erase(page.column(), page.column() + (n or 1)),
}


class WidthHistory:
    """Columns from an offset on, ascending: `first` until the terminal was resized."""

    def __init__(self, first: int, resizes: Iterable[tuple[int, int]] = ()) -> None:
        self._offsets = [0]
        self._columns = [first]
        for offset, columns in resizes:
            self.add(offset, columns)

    def add(self, offset: int, columns: int) -> None:
        self._offsets.append(offset)
        self._columns.append(columns)

    def width_at(self, offset: int) -> int:
        """The width for a byte that comes at an offset."""
        return self._columns[bisect_right(self._offsets, offset) - 1]

    def changes_between(self, begin: int, end: int) -> list[tuple[int, int]]:
        """What changed behind `begin` and before `end`: the places, counted from `begin`, and the columns from there on."""
        first, last = bisect_right(self._offsets, begin), bisect_right(self._offsets, end - 1)
        return [(self._offsets[number] - begin, self._columns[number]) for number in range(first, last)]

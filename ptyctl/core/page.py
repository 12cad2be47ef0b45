"""Rows of cells without a last row: what a terminal of one width and endless height shows."""

from __future__ import annotations

from wcwidth import wcwidth

_TAB_STOP = 8
#: Shows nothing: never written, or erased. A blank in the middle of a line, nothing at its end.
VOID = ""
#: The second column of a wide character, or one that a tab skipped.
_FILLER = "\0"


class Page:
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
    page = Page(1 << 30)
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

"""Raw terminal bytes to rendered text: what a terminal of that width and unlimited height shows.

Carriage returns, backspaces, erase functions and cursor motions are applied, attributes dropped, and wrapped lines joined. The
alternate screen leaves no text unless requested. A line without controls passes byte for byte, so exact output stays exact.
"""

from __future__ import annotations

import codecs
import copy
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable

from wcwidth import wcwidth

from .control_sequences import (
    CSI_BODY,
    CSI_FINAL,
    ESCAPE_BODY,
    OSC_BODY,
    SEQUENCE,
    STRING_BODY,
    STRING_INTRODUCER,
    STRING_SEQUENCE,
)

#: A surrogate that marks a resize in the text; decoding UTF-8 never produces it.
_RESIZE = "\udc00"
_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_STRINGS = re.compile(STRING_SEQUENCE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LINE_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_PARTIAL = re.compile(
    rf"\x1b(?:\[{CSI_BODY}|\]{OSC_BODY}\x1b?|{STRING_INTRODUCER}{STRING_BODY}\x1b?|{ESCAPE_BODY})\Z"
)  # fmt: skip
_UNLIMITED_WIDTH = 1 << 30
_TOKEN = re.compile(
    rf"(?P<text>[^\x00-\x1f\x7f{_RESIZE}]+)|{_RESIZE}"
    rf"|\x1b\[(?P<private>\??)(?P<args>[0-9;]*)[\x20-\x3f]*(?P<final>{CSI_FINAL})"
    rf"|{SEQUENCE}"
    r"|(?P<c0>[\x00-\x1f\x7f])"
)
_ALTERNATE_SCREEN = {"47", "1047", "1049"}
_TAB_WIDTH = 8
#: Text that is this many rows above the last row is final: no terminal is higher.
_REACH_ROWS = 256
#: An incomplete line is held back up to this length (characters), and an incomplete string sequence up to this one.
_LINE_LIMIT = 16 * 1024
_STRING_LIMIT = 1 << 20
#: A cell that was never written or was erased: a blank within a line, nothing at its end.
_VOID = ""
#: The second column of a wide character, or a column that a tab skipped.
_FILLER = "\0"


def render(data: bytes, width: int, resizes: Iterable[tuple[int, int]] = (), *, alternate: bool = False) -> str:
    """Return the rendered text of `data`, with LF between lines.

    `resizes` are ascending offsets into `data`, each with the width from there on. Bytes that are not UTF-8 become U+FFFD.
    `alternate` includes the text of the alternate screen.
    """
    renderer, begin = Renderer(width, alternate=alternate), 0
    for offset, new_width in resizes:
        renderer.feed(data[begin:offset])
        renderer.resize(new_width)
        begin = offset
    renderer.feed(data[begin:] if begin else data)
    return renderer.finish()


def render_line(line: bytes) -> str:
    """Return one line as a terminal of unlimited width shows it, for example without an erased pager prompt."""
    return render(line, _UNLIMITED_WIDTH, alternate=True) if _LINE_CONTROL.search(line) else line.decode("utf-8", "replace")


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
    a line feed; it identifies whether two addresses are in the same line. `redrawn` is the largest number of lines that the
    cursor has been above the last one.
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
        self._lines: list[str | list[str]] = [""]

    def text(self, end: int | None = None) -> str:
        """Return the text of all lines, or of those before `end`."""
        return "\n".join(line if isinstance(line, str) else _joined(line) for line in self._lines[:end])

    def unchanging_lines(self) -> str:
        """Return the lines above the cursor, without those that the cursor is known to return to."""
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
        """Change the width and wrap lines accordingly; the cursor stays after the same character."""
        self.width = max(1, width)
        self.pending = self.pending and self.x % self.width == 0

    def at_empty_line(self) -> bool:
        """Whether the cursor is on an empty last line, where `keep` can store a plain line."""
        return self.x == 0 and self.y == len(self._lines) - 1 and not self._lines[self.y]

    def keep(self, line: str) -> None:
        self._lines[self.y] = line

    def keep_lines(self, lines: list[str]) -> None:
        """Store plain lines, and move to the line after them."""
        self._lines[-1:] = [*lines, ""]
        self.y = len(self._lines) - 1
        self.row = None

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
        if self.x >= len(line) and text.isascii():
            self._fill(line)
            line.extend(text)
            self.x += len(text)
            self.pending = self.x % self.width == 0
            return
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
        self.redrawn = max(self.redrawn, len(self._lines) - 1 - self.y)

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
    return _text_of_cells(cells[:end])


def _text_of_cells(cells: list[str]) -> str:
    return "".join(" " if cell == _VOID else cell for cell in cells).replace(_FILLER, "")


class Renderer:
    """Renders raw bytes piece by piece; ignores unknown sequences. With `take` the memory is bounded.

    `width` is that at the begin. `alternate` includes the text of the alternate screen.
    """

    def __init__(self, width: int, *, alternate: bool = False) -> None:
        self._screen = UnboundedScreen(width)
        self._keep_alternate = alternate
        self._alternate = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._widths: deque[int] = deque()  # of the resize marks in the held text
        self._held = ""  # an incomplete line
        self._partial = 0  # where the incomplete sequence at its end begins
        self._in_line = False  # a part of the line is drawn

    def feed(self, data: bytes) -> None:
        """Render bytes. An incomplete line is held back, up to a limit."""
        text = self._held + self._decoder.decode(data)
        end = _partial_begin(text)
        complete, partial = _without_strings(text[:end]), text[end:]
        cut = complete.rfind("\n") + 1
        if len(complete) - cut > _LINE_LIMIT:
            cut = len(complete)
        if len(partial) > _STRING_LIMIT:
            partial = ""  # as in the spool, the rest of the string is text
        self._held, self._partial = complete[cut:] + partial, len(complete) - cut
        self._draw(complete[:cut])

    def resize(self, width: int) -> None:
        """Change the width from here on. Within a sequence or a character, change it before them."""
        self._widths.append(width)
        self._held = f"{self._held[: self._partial]}{_RESIZE}{self._held[self._partial :]}"
        self._partial += 1

    def take(self) -> str:
        """Remove and return the text that is final, because no terminal is so high that its cursor can return there."""
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
        text = _without_strings(self._held + self._decoder.decode(b"", True))
        self._held = ""
        self._draw(text, ended=True)
        return self._screen.text()

    def _draw(self, text: str, *, ended: bool = False) -> None:
        """Draw lines, and a part of a long line or, with `ended`, the last line."""
        plain = text.replace("\r\n", "\n")
        if self._at_empty_line() and _RESIZE not in plain and not _CONTROL.search(plain):
            *lines, rest = plain.split("\n")
            self._screen.keep_lines(lines)
        else:
            *lines, rest = text.split("\n")
            for line in lines:
                self._line(line)
                self._newline()
        if ended:
            self._line(rest)
        elif rest:
            self._tokens(rest)
            self._in_line = True

    def _at_empty_line(self) -> bool:
        return not self._alternate and not self._in_line and self._screen.at_empty_line()

    def _newline(self) -> None:
        self._in_line = False
        if not self._alternate:
            self._screen.apply_address()
            self._screen.newline()

    def _line(self, line: str) -> None:
        plain = line.replace(_RESIZE, "").rstrip("\r")
        if self._at_empty_line() and not _CONTROL.search(plain):
            self._screen.keep(plain)
            for _ in range(line.count(_RESIZE)):
                self._screen.resize(self._widths.popleft())
            return
        self._tokens(line)

    def _tokens(self, line: str) -> None:
        for token in _TOKEN.finditer(line):
            self._token(token)

    def _token(self, token: re.Match[str]) -> None:
        if token["final"] and token["private"]:
            if _ALTERNATE_SCREEN.intersection(token["args"].split(";")) and token["final"] in "hl":
                self._alternate = token["final"] == "h" and not self._keep_alternate
        elif token[0] == _RESIZE:
            self._screen.resize(self._widths.popleft())
        elif self._alternate:
            return
        elif token["final"] in ("H", "f"):
            row, column = (*_numbers(token["args"]), None, None)[:2]
            self._screen.address(row or 1, (column or 1) - 1)
        elif token["final"] == "K" and _numbers(token["args"])[0] == 2:
            self._screen.erase_row()
        elif token["text"]:
            self._screen.apply_address()
            self._screen.draw(token["text"])
        elif token["c0"] in _C0:
            self._screen.apply_address()
            _C0[token["c0"]](self._screen)
        elif token["final"] in _CSI:
            self._screen.apply_address()
            _CSI[token["final"]](self._screen, _numbers(token["args"])[0])


def _without_strings(text: str) -> str:
    """Remove string sequences, which may contain line feeds, and attributes."""
    return _SGR.sub("", _STRINGS.sub("", text)) if "\x1b" in text else text


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

"""Raw terminal bytes to the text that a person would have read (CONTRACTS, blocks).

As a terminal of that width and endless height would show it: carriage returns, backspaces, erases and cursor moves are
resolved, attributes dropped, wrapped lines whole again; the alternate screen leaves nothing, unless it is asked for. A line
with none of these passes byte for byte, so exact output stays exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from .control import ESC
from .normalise import SEQUENCE
from .page import Page

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
        self.page = Page(width)
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


def _backspace(page: Page) -> None:
    page.to_column(page.column() - 1)


def _erase_line(page: Page, how: int | None) -> None:
    column = page.column()
    begin, end = {None: (column, None), 0: (column, None), 1: (0, column + 1)}.get(how, (0, 0))
    page.erase(begin, end)


def _erase_screen(page: Page, how: int | None) -> None:
    if not how:  # a whole screen that is cleared was shown before: its lines stay
        page.erase_below()


_C0: dict[str, Callable[[Page], None]] = {
    "\b": _backspace,
    "\t": Page.tab,
    "\r": lambda page: page.to_column(0),
    "\v": Page.newline,
    "\f": Page.newline,
}
_CSI: dict[str, Callable[[Page, int | None], None]] = {
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

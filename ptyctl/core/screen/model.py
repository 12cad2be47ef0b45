"""The screen model: a terminal as a fold over the bytes that it was sent."""

from __future__ import annotations

import copy

from .drawing import Drawing
from .fast_forward import cut, run_end, styling, unfinished
from .grid import Grid
from .paint import painted
from .picture import Picture, pictured
from .repaint import address, drawing_end, known, settings, unknown
from .terminal import fold
from .tokens import Tokenizer
from .view import Frame, framed

#: So much is held as tokens at a time, and text that is gathered is looked through when it is more than that.
_PIECE_BYTES = 1 << 16
_GATHERED_BYTES = 1 << 20


class ScreenModel:
    """What a terminal of this size shows after the bytes it was fed.

    However they are cut, the picture is the same. Text without any sequences but colours is only gathered until someone looks,
    so that a burst is never drawn line by line; all else is done at once. `answers` are the replies that the terminal owes the
    far end, in order; whoever owns the model takes them and clears the list. Beyond 64 nothing more is answered until then.
    """

    def __init__(self, cols: int, rows: int, scrollback: int = 1000) -> None:
        self._canvas = Drawing(cols, rows, scrollback)
        self._tokenizer = Tokenizer()
        #: The begin of a sequence that may be a colour's: with its end it may belong to plain text.
        self._begun = b""
        self._gathered: list[bytes] = []
        self._gathered_size = 0
        self._seen = self._canvas.grid.copy()
        #: A screen with cells that are not drawn anew: it is not tried again.
        self._lasting: Grid | None = None

    @property
    def cols(self) -> int:
        return self._canvas.columns

    @property
    def rows(self) -> int:
        return self._canvas.lines

    @property
    def answers(self) -> list[bytes]:
        return self._canvas.answers

    @property
    def settled(self) -> bool:
        """Whether no sequence is still to end. What is painted goes on alike in any case."""
        return self._tokenizer.between_tokens and not self._begun

    def feed(self, data: bytes) -> None:
        """Never raises, whatever the bytes."""
        data = self._begun + data
        whole = unfinished(data)
        data, self._begun = data[:whole], data[whole:]
        if not self._tokenizer.between_tokens or run_end(data, 0) < len(data):
            self._run(self._taken() + data)
        else:
            self._gather(data)
            if self._gathered_size >= _GATHERED_BYTES:
                self._forward()

    def resize(self, cols: int, rows: int) -> None:
        self._settle()
        self._canvas.resize(rows, cols)

    def picture(self, *, attributes: bool = False) -> Picture:
        self._settle()
        return pictured(self._canvas, attributes=attributes)

    def frame(self, cols: int, rows: int) -> Frame:
        """What a terminal of that size shows of it."""
        self._settle()
        return framed(self._canvas, cols, rows)

    def changed(self) -> frozenset[int]:
        """Rows, 0-based, that differ from those at the last call; all of them after a resize or on the other screen."""
        self._settle()
        grid, seen = self._canvas.grid, self._seen
        self._seen = grid.copy()
        if self._canvas.repainted:
            self._canvas.repainted = False
            return frozenset(range(self.rows))
        return frozenset(
            y for y in range(self.rows) if grid.text[y] != seen.text[y] or grid.styles[y] != seen.styles[y]
        )  # fmt: skip

    def scrollback(self, limit: int) -> list[str]:
        """Lines that scrolled off the main screen at its top, oldest first, the newest `limit` of those that are kept."""
        self._settle()
        lines = list(self._canvas.history)
        return lines[max(0, len(lines) - limit) :]

    def paint(self) -> bytes:
        """Bytes that make a fresh terminal of this size show the same, and go on alike from there."""
        self._settle()
        return painted(self._canvas) + self._tokenizer.pending() + self._begun

    def copy(self) -> ScreenModel:
        """A checkpoint that goes its own way. Rows are shared, so it costs little."""
        other = copy.copy(self)
        other._canvas, other._tokenizer = self._canvas.copy(), self._tokenizer.copy()
        other._gathered, other._seen = self._gathered.copy(), self._seen.copy()
        return other

    def _gather(self, data: bytes) -> None:
        self._gathered.append(data)
        self._gathered_size += len(data)

    def _taken(self) -> bytes:
        data = b"".join(self._gathered)
        self._gathered, self._gathered_size = [], 0
        return data

    def _settle(self) -> None:
        """Draws what is gathered."""
        if self._gathered:
            data = self._taken()
            self._fold(data, self._skip(data, 0, len(data)), len(data))

    def _forward(self) -> None:
        """Of what is gathered, keeps what may still be seen; where that is too much, it is drawn."""
        data = self._taken()
        begin = self._skip(data, 0, len(data))
        if len(data) - begin < _GATHERED_BYTES // 2:
            self._gather(data[begin:])
        else:
            self._fold(data, begin, len(data))

    def _run(self, data: bytes) -> None:
        """Draws all but the plain text at the end, which is gathered."""
        begin = drawn = 0
        while begin < len(data):
            end = begin
            if self._tokenizer.between_tokens:
                if begin >= drawn:
                    drawn = drawing_end(data, begin)
                    begin = self._repaint(data, begin, drawn)
                end = run_end(data, begin)
                if end == len(data):
                    self._gather(data[begin:])
                    self._forward()
                    return
                begin = self._skip(data, begin, end)
            stop = min(len(data), max(end, begin + _PIECE_BYTES))
            self._fold(data, begin, stop)
            begin = stop

    def _skip(self, data: bytes, begin: int, end: int) -> int:
        """Where to go on in a run of text after what provably scrolls off."""
        canvas = self._canvas
        if canvas.margins is not None:
            return begin
        kept = 0 if canvas.alternate else canvas.scrollback
        at = cut(data, begin, end, 2 * canvas.lines - 1 + kept)
        if at > begin:
            canvas.cursor.x, canvas.cursor.y, canvas.last = 0, canvas.lines - 1, ""
            self._tokenizer.skip()
            style = styling(data, begin, at)
            self._fold(style, 0, len(style))
        return at

    def _repaint(self, data: bytes, begin: int, end: int) -> int:
        """Where to go on in such bytes: at their end, if what was drawn last is all that shows."""
        canvas = self._canvas
        place = address(data, begin, end, self.cols * self.rows)
        if place == begin or not canvas.alternate or canvas.grid is self._lasting:
            return begin
        if canvas.clusters.joining or self._tokenizer.pending():
            return begin
        other = self.copy()
        lasting = settings(data, begin, place)
        other._fold(lasting, 0, len(lasting))
        other._canvas.grid = unknown(self.cols, self.rows)
        other._fold(data, place, end)
        if not known(other._canvas.grid):
            self._lasting = canvas.grid
            return begin
        self._canvas, self._tokenizer = other._canvas, other._tokenizer
        return end

    def _fold(self, data: bytes, begin: int, end: int) -> None:
        for piece in range(begin, end, _PIECE_BYTES):
            self._canvas.tidy()
            fold(self._canvas, self._tokenizer.tokens(data[piece : min(end, piece + _PIECE_BYTES)]))

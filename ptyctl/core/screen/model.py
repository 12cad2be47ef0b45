"""The screen model: a first version on stock pyte."""

from __future__ import annotations

import copy

import pyte

from .picture import Picture


class ScreenModel:
    """What a terminal of this size shows after the bytes it was fed."""

    def __init__(self, cols: int, rows: int, scrollback: int = 1000) -> None:
        self.answers: list[bytes] = []
        self._screen = pyte.Screen(cols, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._size = scrollback

    @property
    def cols(self) -> int:
        return self._screen.columns

    @property
    def rows(self) -> int:
        return self._screen.lines

    def feed(self, data: bytes) -> None:
        for i in range(len(data)):
            try:
                self._stream.feed(data[i : i + 1])
            except (TypeError, UnboundLocalError):
                continue

    def resize(self, cols: int, rows: int) -> None:
        self._screen.resize(rows, cols)

    def picture(self, *, attributes: bool = False) -> Picture:
        screen = self._screen
        cursor = (min(screen.cursor.y, screen.lines - 1), min(screen.cursor.x, screen.columns - 1))
        return Picture(
            tuple(row.rstrip(" ") for row in screen.display),
            cursor,
            not screen.cursor.hidden,
            screen.title,
            False,
            screen.columns,
            screen.lines,
            tuple(() for _ in range(screen.lines)) if attributes else None,
        )

    def changed(self) -> frozenset[int]:
        rows = frozenset(row for row in self._screen.dirty if row < self._screen.lines)
        self._screen.dirty.clear()
        return rows

    def scrollback(self, limit: int) -> list[str]:
        return []

    def paint(self) -> bytes:
        return "\r\n".join(self.picture().rows).encode()

    def copy(self) -> ScreenModel:
        other = ScreenModel(self.cols, self.rows, self._size)
        other._screen.buffer.update(copy.deepcopy(dict(self._screen.buffer)))
        return other

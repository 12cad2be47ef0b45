"""A text in pieces, each as long as fits on the screen."""

from __future__ import annotations

from collections import deque


class Pager:
    """A text that is shown in pieces. `length` is the rows of the screen (0: endless), `width` its columns (0: endless)."""

    def __init__(self, text: str) -> None:
        self._lines = deque(text.splitlines(keepends=True))
        self._total = len(self._lines)

    @property
    def done(self) -> bool:
        return not self._lines

    @property
    def percent(self) -> int:
        """How much was shown."""
        return 100 - 100 * len(self._lines) // self._total if self._total else 100

    def page(self, length: int, width: int) -> str:
        """As much as fits above the prompt, at least one line."""
        if length == 0:
            return self._take(len(self._lines))
        rows = length - 1
        count = 0
        for line in self._lines:
            rows -= _rows(line, width)
            if rows < 0 and count:
                break
            count += 1
        return self._take(count)

    def line(self) -> str:
        """One line more."""
        return self._take(1)

    def _take(self, count: int) -> str:
        return "".join(self._lines.popleft() for _ in range(min(count, len(self._lines))))


def _rows(line: str, width: int) -> int:
    """How many rows of the screen a line takes: a terminal wraps what is wider than itself."""
    columns = len(line.rstrip("\n"))
    return max(1, -(-columns // width)) if width else 1

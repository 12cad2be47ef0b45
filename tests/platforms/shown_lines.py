"""The output that a login dialogue sees: the rendered lines since the last input."""

from __future__ import annotations

import re

from ptyctl.core.renderer import render

_WIDE = 10_000
#: A ProCurve moves the cursor to the last row before and after each prompt; it is there already.
_POSITION = re.compile(rb"\x1b\[[0-9;]*H")


class ShownLines:
    """`add` receives bytes without Telnet commands; `typed` marks the time of an input."""

    def __init__(self) -> None:
        self._data = b""
        self._seen = 0

    def add(self, data: bytes) -> None:
        self._data += data.replace(b"\0", b"")

    def typed(self) -> None:
        self._data = self._data[self._data.rfind(b"\n") + 1 :]
        self._seen = len(self._data)

    def text(self) -> str:
        """The rendered lines; empty without output since the last input."""
        return render(_POSITION.sub(b"", self._data), _WIDE) if len(self._data) > self._seen else ""

    def lines(self) -> list[str]:
        return self.text().split("\n")

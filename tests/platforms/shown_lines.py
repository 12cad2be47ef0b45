"""What a login is shown: the lines from the one on which the last text was typed, as a terminal shows them."""

from __future__ import annotations

import re

from ptyctl.core.renderer import render

_WIDE = 10_000
#: A ProCurve says where its last row is, before and behind each prompt: the cursor is on it already.
_POSITION = re.compile(rb"\x1b\[[0-9;]*H")


class ShownLines:
    """Bytes come in by `add`, Telnet's own taken out; `typed` says that something is typed now."""

    def __init__(self) -> None:
        self._data = b""
        self._seen = 0

    def add(self, data: bytes) -> None:
        self._data += data.replace(b"\0", b"")

    def typed(self) -> None:
        self._data = self._data[self._data.rfind(b"\n") + 1 :]
        self._seen = len(self._data)

    def text(self) -> str:
        """Nothing, where nothing came since then."""
        return render(_POSITION.sub(b"", self._data), _WIDE) if len(self._data) > self._seen else ""

    def lines(self) -> list[str]:
        return self.text().split("\n")

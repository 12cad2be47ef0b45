"""Listens for queries in what comes, at no cost to a flood: who asks waits for the answer, and so the flood pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ptyctl.core.control_sequences import ESC
from ptyctl.core.screen import QueryDetector

#: What comes soon after something was looked through is gathered for so long; more than so much in that time is a flood, of
#: which nothing is kept in memory.
GATHER_S = 0.002
FLOOD_BYTES = 16 * 1024
#: So much of its end is looked through when it is over: what was asked before that, nobody has waited for.
HEARD_BYTES = 1 << 18


class Queries:
    """`on_begin` is told of the offset from which on something may have been asked, then `on_heard` of the offset behind
    the last query, or of None. `tail` gives as many of the last bytes that came, or fewer."""

    def __init__(self) -> None:
        self.on_begin: Callable[[int], None] = lambda raw: None
        self.on_heard: Callable[[int | None], None] = lambda raw: None
        self.tail: Callable[[int], bytes] = lambda size: b""
        self._loop = asyncio.get_running_loop()
        self._detector = QueryDetector()
        self._pieces: list[bytes] = []
        self._flooded = False
        self._came = 0
        self._end = 0
        self._again_at = 0.0
        self._timer: asyncio.Handle | None = None

    def received(self, raw: int, data: bytes) -> None:
        """A piece has come that begins at that offset."""
        self._end = raw + len(data)
        if self._timer is not None:
            self._came += len(data)
            if not self._flooded:
                self._pieces.append(data)
        elif ESC in data or self._detector.partial:
            self._came = len(data)
            self._pieces.append(data)
            self.on_begin(raw)
            soon = self._loop.time() >= self._again_at
            self._timer = self._loop.call_soon(self._listen) if soon else self._loop.call_later(GATHER_S, self._listen)

    def forget(self) -> None:
        """Another terminal begins, or none: what is open is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pieces.clear()
        self._flooded = False
        self._detector = QueryDetector()

    def _listen(self) -> None:
        if self._came >= FLOOD_BYTES:
            self._flooded, self._came = True, 0
            self._pieces.clear()
            self._timer = self._loop.call_later(GATHER_S, self._listen)
            return
        data = b"".join(self._pieces)
        if self._flooded:
            data, self._detector = self.tail(HEARD_BYTES), QueryDetector()
        asked = self._detector.feed(data)
        self._pieces.clear()
        self._flooded, self._timer = False, None
        self._again_at = self._loop.time() + GATHER_S
        self.on_heard(self._end - self._detector.bytes_after if asked else None)

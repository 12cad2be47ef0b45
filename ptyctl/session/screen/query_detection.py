"""Detection of terminal queries (DSR, DA, DECRQM, OSC colours ...) in received output.

A program that sends a query waits for the reply, so output pauses after it. In a flood only the end needs to be searched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ptyctl.core.control_sequences import ESC
from ptyctl.core.screen import QueryDetector
from ptyctl.session.io.os_errors import log_background_error

from .query_responder import QueryResponder

#: Chunks that arrive within this time after a search are collected (seconds). If they exceed FLOOD_BYTES, they are a flood and
#: are not kept in memory.
COLLECT_S = 0.002
FLOOD_BYTES = 16 * 1024
#: After a flood, this many bytes of its end are searched, which takes less than 20 ms: programs that asked earlier no longer
#: wait.
FLOOD_TAIL_BYTES = 1 << 16


class QueryListener:
    """Searches received chunks for queries and reports to the responder.

    `read_tail(size)` returns up to `size` bytes of the end of the output.
    """

    def __init__(self, responder: QueryResponder, read_tail: Callable[[int], bytes]) -> None:
        self._responder = responder
        self._read_tail = read_tail
        self._loop = asyncio.get_running_loop()
        self._detector = QueryDetector()
        self._chunks: list[bytes] = []
        self._flooded = False
        self._collected_bytes = 0
        self._raw_end = 0
        self._next_search_at = 0.0
        self._timer: asyncio.Handle | None = None

    def received(self, raw: int, data: bytes) -> None:
        """Take a chunk that begins at raw offset `raw`."""
        self._raw_end = raw + len(data)
        if self._timer is not None:
            self._collected_bytes += len(data)
            if not self._flooded:
                self._chunks.append(data)
        elif ESC in data or self._detector.partial:
            now = self._loop.time()
            if now >= self._next_search_at and len(data) < FLOOD_BYTES:
                self._next_search_at = now + COLLECT_S
                if self._detector.feed(data):
                    self._responder.output_may_hold_query(raw)
                    self._responder.queries_detected(self._raw_end - self._detector.bytes_after)
                return
            self._collected_bytes = len(data)
            self._chunks.append(data)
            self._responder.output_may_hold_query(raw)
            self._timer = self._loop.call_later(COLLECT_S, self._search)

    def reset(self) -> None:
        """Drop incomplete queries: the terminal has ended or is replaced."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._chunks.clear()
        self._flooded = False
        self._detector = QueryDetector()

    def _search(self) -> None:
        if self._collected_bytes >= FLOOD_BYTES:
            self._flooded, self._collected_bytes = True, 0
            self._chunks.clear()
            self._timer = self._loop.call_later(COLLECT_S, self._search)
            return
        data = b"".join(self._chunks)
        if self._flooded:
            self._detector = QueryDetector()
            try:
                data = self._read_tail(FLOOD_TAIL_BYTES)
            except OSError as error:  # these queries get no reply
                log_background_error(error, "searching output for terminal queries")
                data = b""
        found = self._detector.feed(data)
        self._chunks.clear()
        self._flooded, self._timer = False, None
        self._next_search_at = self._loop.time() + COLLECT_S
        self._responder.queries_detected(self._raw_end - self._detector.bytes_after if found else None)

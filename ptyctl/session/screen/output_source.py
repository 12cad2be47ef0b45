"""The output as the screen reads it: output.raw, the resizes and incarnations between its bytes, and unpersisted bytes in
memory."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from pathlib import Path

from ptyctl.files import open_for_reading
from ptyctl.session.transcript.timeline import TimelineStep, read_steps, time_at
from ptyctl.session.transcript.transcript import Transcript

#: At most this many unpersisted bytes wait in memory for the screen; older ones are lost to it.
UNPERSISTED_BYTES = 8 << 20


class OutputSource:
    """The raw output of one session.

    Attributes:
        first_size: columns and rows of the terminal when it was opened.
        lost: bytes that were neither persisted nor drawn.
    """

    def __init__(self, transcript: Transcript, first_size: tuple[int, int]) -> None:
        self.first_size = first_size
        self.lost = 0
        self._transcript, self._raw = transcript, transcript.raw
        self._folder = transcript.folder
        self._steps_loaded = not transcript.steps_from
        self._unpersisted: deque[bytes] = deque()
        self._unpersisted_from = 0
        self._mutex = threading.Lock()

    @property
    def size(self) -> int:
        """Raw size of the output."""
        return self._raw.size

    @property
    def end(self) -> int:
        """Raw size of the output that viewers see: what follows a held offset is shown later."""
        held = self._transcript.held_from
        return self._raw.size if held is None else held

    @property
    def kept(self) -> int:
        """Number of raw bytes on disk."""
        return self._raw.persisted_size

    @property
    def unpersisted_bytes(self) -> int:
        """Number of bytes that only memory holds."""
        return self.size - self._unpersisted_from if self._unpersisted else 0

    async def steps(self) -> list[TimelineStep]:
        """Return all resizes and incarnations so far, in order. The list grows in place."""
        if not self._steps_loaded:
            earlier = await asyncio.to_thread(read_steps, self._folder / "timeline.jsonl", self._transcript.steps_from)
            if not self._steps_loaded:  # another caller may have loaded them meanwhile
                self._steps_loaded = True
                self._transcript.steps[:0] = earlier
        return self._transcript.steps

    async def changed_at(self, raw: int) -> bool:
        """Return whether the terminal was resized or replaced at a raw offset or later."""
        steps = await self.steps()
        return bool(steps) and steps[-1].raw >= raw

    def step_count(self) -> int:
        """Return the number of known steps."""
        return len(self._transcript.steps)

    async def time_at(self, raw: int) -> int:
        """Return when the last byte before a raw offset arrived (epoch ms)."""
        return await asyncio.to_thread(time_at, self._folder / "timeline.jsonl", raw)

    def add_unpersisted(self, data: bytes) -> None:
        """Add received bytes that are not on disk. `size` already includes them."""
        with self._mutex:
            if not self._unpersisted:
                self._unpersisted_from = self.size - len(data)
            self._unpersisted.append(data)
            while self.size - self._unpersisted_from > UNPERSISTED_BYTES:
                self._unpersisted_from += len(self._unpersisted.popleft())

    def drawn(self, raw: int) -> None:
        """Release unpersisted bytes before a raw offset: the screen has drawn them."""
        with self._mutex:
            while self._unpersisted and self._unpersisted_from + len(self._unpersisted[0]) <= raw:
                self._unpersisted_from += len(self._unpersisted.popleft())

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes between two offsets, fewer if some are lost. Thread-safe."""
        if begin < self.kept:
            return _read(self._folder / "output.raw", begin, min(end, self.kept))
        with self._mutex:
            if begin < self._unpersisted_from or not self._unpersisted:
                return b""
            begin, end = begin - self._unpersisted_from, end - self._unpersisted_from
            return b"".join(self._unpersisted)[begin:end]

    def shown(self, begin: int, data: bytes) -> bytes:
        """Return what viewers see for bytes that `read` has returned for an offset. Thread-safe."""
        return self._transcript.hidden.show(begin, data)

    def shown_pieces(self, begin: int, data: bytes) -> list[tuple[int, bytes]]:
        """Return what `shown` returns in pieces, each with the raw offset of its first byte."""
        return self._transcript.hidden.pieces(begin, data)

    def tail(self, size: int) -> bytes:
        """Return up to `size` bytes of the end."""
        return self.read(max(self.size - size, self.kept if self._unpersisted else 0), self.size)

    def lose(self, size: int) -> None:
        """Count bytes that are not drawn."""
        self.lost += size

    def next_readable(self, raw: int) -> int:
        """Return the first offset after a lost range that `read` can serve."""
        with self._mutex:
            return self._unpersisted_from if self._unpersisted and self._unpersisted_from > raw else self.size


def _read(path: Path, begin: int, end: int) -> bytes:
    with open_for_reading(path) as file:
        file.seek(begin)
        return file.read(end - begin)

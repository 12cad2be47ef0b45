"""What a screen is made from: the bytes of output.raw with the steps between them, and past the quota what came since."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from pathlib import Path

from ptyctl.session.transcript.steps import Step, steps_in, time_at
from ptyctl.session.transcript.transcript import Transcript

#: So much of what is not kept on disk waits in memory for the screen; what is older is lost to it.
UNKEPT_BYTES = 8 << 20


class ScreenSource:
    """`first_size` is the terminal's size (columns, rows) when it was opened; `lost` counts bytes that came and were neither
    kept nor seen by the screen."""

    def __init__(self, transcript: Transcript, first_size: tuple[int, int]) -> None:
        self.first_size = first_size
        self.lost = 0
        self._transcript = transcript
        self._folder = transcript.folder
        self._whole = not transcript.steps_from
        self._waiting: deque[bytes] = deque()
        self._waiting_from = 0
        self._mutex = threading.Lock()

    @property
    def end(self) -> int:
        return self._transcript.raw.size

    @property
    def kept(self) -> int:
        """Where what is on disk ends."""
        return self._transcript.raw.kept

    @property
    def waiting(self) -> int:
        """Bytes that only memory holds."""
        return self.end - self._waiting_from if self._waiting else 0

    async def steps(self) -> list[Step]:
        """All there were so far, in order."""
        if not self._whole:
            earlier = await asyncio.to_thread(steps_in, self._folder / "timeline.jsonl", self._transcript.steps_from)
            if not self._whole:  # nobody else was first, meanwhile
                self._whole = True
                self._transcript.steps[:0] = earlier
        return self._transcript.steps

    def count(self) -> int:
        """How many steps are known: it grows with each."""
        return len(self._transcript.steps)

    async def time_at(self, raw: int) -> int:
        return await asyncio.to_thread(time_at, self._folder / "timeline.jsonl", raw)

    def unkept(self, data: bytes) -> None:
        """This came and is not on disk. It is called behind each such piece, with the log's size already behind it."""
        with self._mutex:
            if not self._waiting:
                self._waiting_from = self.end - len(data)
            self._waiting.append(data)
            while self.end - self._waiting_from > UNKEPT_BYTES:
                self._waiting_from += len(self._waiting.popleft())

    def seen(self, raw: int) -> None:
        """The screen has come so far: what waited for it can go."""
        with self._mutex:
            while self._waiting and self._waiting_from + len(self._waiting[0]) <= raw:
                self._waiting_from += len(self._waiting.popleft())

    def read(self, begin: int, end: int) -> bytes:
        """The bytes between two offsets; fewer where they are not to be had. It may be called from any thread."""
        if begin < self.kept:
            return _read(self._folder / "output.raw", begin, min(end, self.kept))
        with self._mutex:
            if begin < self._waiting_from or not self._waiting:
                return b""
            begin, end = begin - self._waiting_from, end - self._waiting_from
            return b"".join(self._waiting)[begin:end]

    def tail(self, size: int) -> bytes:
        """The last bytes that came, so many or fewer."""
        return self.read(max(self.end - size, self.kept if self._waiting else 0), self.end)

    def next_from(self, raw: int) -> int:
        """The first offset from there on that `read` has something of."""
        with self._mutex:
            return self._waiting_from if self._waiting and self._waiting_from > raw else self.end


def _read(path: Path, begin: int, end: int) -> bytes:
    with path.open("rb", buffering=0) as file:
        file.seek(begin)
        return file.read(end - begin)

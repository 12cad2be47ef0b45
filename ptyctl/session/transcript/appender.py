"""A file that only grows, written in batches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic_core import to_json

from .raw_log import read_between

#: What is appended waits in memory up to this size before it is written, or until `flush`.
BATCH_BYTES = 64 * 1024
_FILE_MODE = 0o600


def json_line(row: Mapping[str, object]) -> bytes:
    """A row of a file of JSON lines."""
    return to_json(row) + b"\n"


class Appender:
    """A file that grows at its end, in batches. A full disk ends the growing: what is there stays whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_APPEND, _FILE_MODE)
        self.batch = bytearray()
        self.size = os.fstat(self._fd).st_size
        self.growing = True

    @property
    def waiting(self) -> bool:
        return bool(self.batch)

    def append(self, data: bytes) -> None:
        if not self.growing or self._fd < 0:
            return
        self.batch += data
        if len(self.batch) >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        while self.batch and self.growing:
            try:
                written = os.write(self._fd, self.batch)
            except OSError:
                self.growing = False
                break
            self.size += written
            del self.batch[:written]
        self.batch.clear()

    def read(self, begin: int, end: int) -> bytes:
        self.flush()
        return read_between(self._fd, self._path, begin, end)

    def close(self) -> None:
        if self._fd >= 0:
            self.flush()
            os.close(self._fd)
            self._fd = -1

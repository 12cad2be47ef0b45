"""An append-only file, written in batches."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic_core import to_json

from ptyctl.files import open_file

from .raw_log import read_range

#: Appended data waits in memory up to this size, or until `flush`.
BATCH_BYTES = 64 * 1024


def json_line(row: Mapping[str, object]) -> bytes:
    """Return a row of a JSON Lines file."""
    return to_json(row) + b"\n"


class AppendFile:
    """A file to which data is appended. On a full disk it stops growing, and its content remains intact.

    Attributes:
        size: bytes written to the file.
        growing: False once a write failed or the file has its largest size.
    """

    def __init__(self, path: Path, max_bytes: int | None = None) -> None:
        """Open the file. It takes no data that would make it larger than `max_bytes`."""
        self._path = path
        self._max_bytes = max_bytes
        self._fd = open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._batch = bytearray()
        self.size = os.fstat(self._fd).st_size
        self.growing = True

    @property
    def size_with_batch(self) -> int:
        """Bytes written or waiting to be written."""
        return self.size + len(self._batch)

    def append(self, data: bytes) -> None:
        """Add data to the batch; write the batch when it is large enough. A closed or full file ignores the data."""
        if not self.growing or self._fd < 0:
            return
        if self._max_bytes is not None and self.size + len(self._batch) + len(data) > self._max_bytes:
            self.flush()
            self.growing = False
            return
        self._batch += data
        if len(self._batch) >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the batch."""
        while self._batch and self.growing:
            try:
                written = os.write(self._fd, self._batch)
            except OSError:
                self.growing = False
                break
            self.size += written
            del self._batch[:written]
        self._batch.clear()

    def replace(self, at: int, old: bytes, new: bytes) -> None:
        """Replace bytes that were written by others of the same number. After a failure the file has the old ones again."""
        if self._fd < 0 or at + len(old) > self.size:
            return
        fcntl.fcntl(self._fd, fcntl.F_SETFL, 0)  # Linux appends all that is written to a file with O_APPEND
        try:
            if os.pwrite(self._fd, new, at) < len(new):
                os.pwrite(self._fd, old, at)
        except OSError:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, old, at)
        finally:
            fcntl.fcntl(self._fd, fcntl.F_SETFL, os.O_APPEND)

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes between two offsets, also after `close`."""
        self.flush()
        return read_range(self._fd, self._path, begin, end)

    def close(self) -> None:
        """Write the batch and close the file."""
        if self._fd >= 0:
            self.flush()
            os.close(self._fd)
            self._fd = -1

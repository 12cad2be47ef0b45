"""The file of durable calls, calls.jsonl: a row before each call and one after its end; the last row of a call counts."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from ptyctl.files import FILE_MODE, replace_file
from ptyctl.session.transcript.jsonl import cut_torn_line, read_rows


class CallJournal:
    """The rows of calls on disk. Its methods block, and wait for each other: a cancelled task leaves its thread running.

    Attributes:
        size: of the file in bytes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._is_replaced = False
        self._is_torn = False
        self._using = threading.RLock()
        self.size = 0

    def open(self) -> list[dict[str, Any]]:
        """Open the file, and return the last row of each call that had an effect or may have had one. Raises OSError."""
        cut_torn_line(self._path)
        self._open()
        rows: dict[str, dict[str, Any]] = {}
        for row in read_rows(self._path):
            if not _is_row(row):
                continue
            key = "\n".join(row["key"])
            rows.pop(key, None)
            if "void" not in row:
                rows[key] = row
        return list(rows.values())

    def replace(self, rows: bytes) -> None:
        """Replace the content; later rows are appended to it.

        Raises:
            OSError: the content is as before, or replaced. The next row goes to the file that has the name then.
        """
        with self._using:
            if self._is_torn:
                self._cut()
            self._is_replaced = True
            replace_file(self._path, rows.decode(), sync=True)
            self._open()

    def _open(self) -> None:
        """Open the file, then close the one before. Raises OSError."""
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        self.close()
        self._fd = fd
        self._is_replaced = self._is_torn = False
        self.size = os.fstat(fd).st_size

    def append(self, row: bytes, *, sync: bool = False) -> None:
        """Append a row. With `sync`, return when it is on the disk.

        Raises:
            OSError: the file is as before, or will be before the next row.
        """
        with self._using:
            if self._is_replaced:
                self._open()
            if self._is_torn:
                self._cut()
            try:
                if os.write(self._fd, row) < len(row):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if sync:
                    os.fdatasync(self._fd)
            except OSError:
                self._is_torn = True
                with suppress(OSError):
                    self._cut()
                raise
            self.size += len(row)

    def _cut(self) -> None:
        """Remove the incomplete row of a failed write: the next row must begin a line. Raises OSError."""
        os.ftruncate(self._fd, self.size)
        self._is_torn = False

    def close(self) -> None:
        """Close the file."""
        with self._using:
            self._is_replaced = False
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


def _is_row(row: dict[str, Any]) -> bool:
    key = row.get("key")
    is_key = isinstance(key, list) and len(key) == 3 and all(isinstance(part, str) for part in key)
    return is_key and isinstance(row.get("at"), int | float)

"""How far a file is written, where not even a kill -9 loses it: eight bytes of another, mapped file.

The room that is allocated ahead of a file's end is zeros, and so may be what a program printed: only a count tells them apart.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

_SIZE = 8
_FILE_MODE = 0o600


class WritePosition:
    """`cell[0]` is the count, in this machine's byte order: one store, never torn. On a full disk it is memory only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._map: mmap.mmap | None = None
        fd = -1
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
            os.posix_fallocate(fd, 0, _SIZE)  # or writing to the map would be a SIGBUS on a full disk
            self._map = mmap.mmap(fd, _SIZE)
        except OSError:
            self._map = None
        finally:
            if fd >= 0:
                os.close(fd)
        self.cell = memoryview(self._map if self._map is not None else bytearray(_SIZE)).cast("Q")

    def remove(self) -> None:
        """The file that is counted ends where its bytes do: nothing is to be told any more."""
        self.cell.release()
        if self._map is not None:
            self._map.close()
        self._path.unlink(missing_ok=True)

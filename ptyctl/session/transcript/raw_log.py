"""output.raw: what a channel receives is read straight into a mapped, preallocated extent of the file.

A byte that was received is in the kernel's page cache at once, so not even a kill -9 of this process loses it. How many there
are stands in output.end as long as the file is open; then the file ends with the last of them.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

from .write_position import WritePosition

#: Extents double from the first to the last size: an idle session costs little, a flood few system calls.
FIRST_EXTENT_BYTES = 64 * 1024
LAST_EXTENT_BYTES = 4 * 1024 * 1024
_FILE_MODE = 0o600


class RawLog:
    """An append-only file with a buffer at its end. `size` is how many bytes were received, kept or not.

    Whoever has it open owns the session: the file is locked (flock(2)) until `close`, or until the process ends.
    """

    def __init__(self, path: Path, quota_bytes: int) -> None:
        """Raises BlockingIOError where another owns the file, and other OSErrors."""
        self._path = path
        self._quota = quota_bytes
        self._fd = _opened(path)
        self.size = self.kept = os.fstat(self._fd).st_size
        self._position = WritePosition(path.with_name("output.end"))
        #: What a killed server had counted of the file: so much of it is no room allocated ahead.
        self.counted: int = self._position.cell[0]
        self._map: mmap.mmap | None = None
        self._base = 0  # where the present extent begins in the file
        self._view: memoryview | None = None
        self._next_extent = FIRST_EXTENT_BYTES
        self._scratch: bytearray | None = None

    @property
    def keeping(self) -> bool:
        """Whether bytes still reach the disk: not past the quota, nor after the disk was full."""
        return self._scratch is None

    def get_buffer(self) -> memoryview:
        """Writable room behind the last byte; without a place on disk it is memory that is forgotten."""
        if self._scratch is not None:
            return memoryview(self._scratch)
        if self._map is None or self.size - self._base == len(self._map):
            self._extend()
            return self.get_buffer()
        self._release_view()
        self._touch(self._map, self.size - self._base)
        self._view = memoryview(self._map)[self.size - self._base :]
        return self._view

    def _touch(self, extent: mmap.mmap, at: int) -> None:
        """Has the pages at hand that a terminal's next read fills, which is at most one page long. Where one has to be fetched
        in mid-read and the process is killed meanwhile, the kernel has taken 64 bytes from the terminal and drops them."""
        extent[at] = 0
        extent[min(at + mmap.PAGESIZE, len(extent) - 1)] = 0

    def take(self, nbytes: int) -> bytes:
        """The `nbytes` that were put into the buffer, now part of the log."""
        if self._scratch is not None:
            data = bytes(self._scratch[:nbytes])
        else:
            assert self._map is not None
            begin = self.size - self._base
            data = self._map[begin : begin + nbytes]
            self.kept += nbytes
            self._position.cell[0] = self.kept
        self.size += nbytes
        return data

    @property
    def path(self) -> Path:
        return self._path

    def size_on_disk(self) -> int:
        """The file's size now, with the room that is allocated ahead; 0 where it was removed."""
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def read(self, begin: int, end: int) -> bytes:
        """The kept bytes between two offsets; fewer where some were not kept."""
        end = min(end, self.kept)
        if self._map is not None and self._base <= begin < end:
            return self._map[begin - self._base : end - self._base]
        return read_range(self._fd, self._path, begin, end)

    def cut(self, end: int) -> None:
        """What was received ends there; what stands behind it never was."""
        os.ftruncate(self._fd, end)
        self.size = self.kept = self._position.cell[0] = end

    def lost_until(self, size: int) -> None:
        """So many bytes were received, and the last of them not kept; nor is anything from now on."""
        self.size = size
        self._scratch = bytearray(FIRST_EXTENT_BYTES)

    def close(self) -> None:
        """Cuts the file to what was received, and lets go of it."""
        if self._fd < 0:
            return
        self._unmap()
        os.ftruncate(self._fd, self.kept)
        self._position.remove()
        os.close(self._fd)
        self._fd = -1
        self._scratch = bytearray(mmap.PAGESIZE)  # for what a channel may hand over while it ends

    def _extend(self) -> None:
        base = _whole_pages(self.size)  # it is smaller where a recovered file is gone on with
        length = _whole_pages(min(self._next_extent, self._quota - base))
        self._unmap()
        try:
            if base + length <= self.size:
                raise OSError("quota reached")
            os.posix_fallocate(self._fd, base, length)  # now, or writing to the map would be a SIGBUS on a full disk
            self._map = mmap.mmap(self._fd, length, offset=base)
        except OSError:
            os.ftruncate(self._fd, self.size)  # what was found of the room is no output
            self._scratch = bytearray(FIRST_EXTENT_BYTES)
            return
        self._base = base
        self._next_extent = min(self._next_extent * 2, LAST_EXTENT_BYTES)

    def _release_view(self) -> None:
        if self._view is not None:
            self._view.release()
            self._view = None

    def _unmap(self) -> None:
        self._release_view()
        if self._map is not None:
            self._map.close()
            self._map = None


def _opened(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _whole_pages(size: int) -> int:
    return size // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY


def read_range(fd: int, path: Path, begin: int, end: int) -> bytes:
    """The bytes of a file between two offsets; by its path where it is no longer open, so that history outlives a close."""
    if begin >= end:
        return b""
    if fd >= 0:
        return os.pread(fd, end - begin, begin)
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(end - begin)

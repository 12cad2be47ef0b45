"""output.raw: an append-only log of received bytes in a memory-mapped, preallocated file.

Channels read directly into the mapping, so a received byte is in the kernel's page cache at once and survives a `kill -9` of
this process. While the file is open, output.end holds its size; `close` truncates output.raw to that size. Once the disk or
the quota is full, output.end also holds the sizes of all output, so that a later process never uses its offsets again.

An access to a part of a mapping that another process has truncated raises SIGBUS, which would end all sessions. So the size of
a mapped file is checked just before each access; a truncated file is no longer used, as on a full disk.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from contextlib import suppress
from pathlib import Path

from ptyctl.files import open_file, open_for_reading

#: The size of extents doubles from the first to the last: an idle session uses little disk, a flood few system calls.
FIRST_EXTENT_BYTES = 64 * 1024
LAST_EXTENT_BYTES = 4 * 1024 * 1024
#: Bytes that are not persisted are kept in memory up to about this number: prompts and echoes are searched for in them.
TAIL_BYTES = 256 * 1024
#: The largest offset that a file may name. No session receives that much, so a larger number is damage.
MAX_OFFSET = 1 << 48


class WritePosition:
    """Numbers in a small mapped file: the size of output.raw without the room allocated ahead, and the sizes of all output.

    The first is needed because both that room and a program's output may be zeros.

    Attributes:
        stored: the numbers that were in the file when it was opened: size of output.raw, number of received bytes, size of the
            spool. The last two are 0 unless some output was not persisted. All are 0 if they cannot be right.
        is_damaged: whether they could not be right.
    """

    _SIZE = 24

    def __init__(self, path: Path, *, create: bool) -> None:
        """Open the file. If it does not exist and `create` is false, keep the numbers in memory only.

        Raises:
            OSError: it cannot be used. Without its numbers, recovery would reuse offsets.
        """
        self._path = path
        self._map = self._open() if create or path.exists() else None
        self._cell = memoryview(self._map if self._map is not None else bytearray(self._SIZE)).cast("Q")
        self.stored: tuple[int, ...] = tuple(self._cell)
        self.is_damaged = max(self.stored) > MAX_OFFSET
        if self.is_damaged:
            self.stored = (0,) * len(self.stored)
            self.store(*self.stored)

    def _open(self) -> mmap.mmap:
        fd = open_file(self._path, os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, self._SIZE)  # without it, a store on a full disk raises SIGBUS
            return mmap.mmap(fd, self._SIZE)
        finally:
            os.close(fd)

    def store(self, *numbers: int, first: int = 0) -> None:
        """Store numbers, in native byte order: each is a single store, which is never torn."""
        if self._map is None or self._map.size() >= self._SIZE:
            for index, number in enumerate(numbers, first):
                self._cell[index] = number

    def close(self, *, remove: bool) -> None:
        """Close the file, and remove it if output.raw has been truncated to its content and holds all output.

        Further numbers are in memory only.
        """
        self._cell.release()
        self._cell = memoryview(bytearray(self._SIZE)).cast("Q")
        if self._map is not None:
            self._map.close()
            self._map = None
        if remove:
            self._path.unlink(missing_ok=True)


class RawLog:
    """The log of one session. Its owner holds a lock on the file (flock(2)) until `close` or the end of the process.

    Attributes:
        size: number of bytes received.
        persisted_size: number of bytes received and in the file. Less than `size` after the quota or the disk was full.
        stored_position: the size in output.end when the file was opened; 0 if it was closed cleanly.
        stored_sizes: the least raw and spool size of the session according to output.end.
        position_damaged: output.end held no sizes.
    """

    def __init__(self, path: Path, quota_bytes: int, *, read_only: bool = False) -> None:
        """Open and lock the file. `read_only`: no output will be received.

        Raises:
            BlockingIOError: another process owns the file.
            OSError: the file cannot be opened.
        """
        self.path = path
        self._quota = quota_bytes
        self._fd = _open_locked(path)
        self.size = self.persisted_size = os.fstat(self._fd).st_size
        try:
            self._position = WritePosition(path.with_name("output.end"), create=not read_only)
        except OSError:
            os.close(self._fd)
            raise
        self.stored_position, *self.stored_sizes = self._position.stored
        self.position_damaged = self._position.is_damaged
        self._map: mmap.mmap | None = None
        self._base = 0  # offset of the current extent in the file
        self._view: memoryview | None = None
        self._next_extent = FIRST_EXTENT_BYTES
        self._scratch: bytearray | None = None
        self._tail = bytearray()  # the last bytes that were not persisted
        self._last = self.size, b""  # the last received bytes and their offset: prompts and echoes are searched for in them

    @property
    def persisting(self) -> bool:
        """Whether received bytes still reach the disk. False once the quota is reached or the disk was full."""
        return self._scratch is None

    def get_buffer(self) -> memoryview:
        """Return writable room after the last byte. Once nothing is persisted, the room is a scratch buffer."""
        if self._scratch is not None:
            return memoryview(self._scratch)
        if self._map is None or self.size - self._base == len(self._map):
            self._extend()
            return self.get_buffer()
        if self._map.size() < self._base + len(self._map):
            self._stop()
            return self.get_buffer()
        self._release_view()
        extent, at = self._map, self.size - self._base
        # Fault in the pages that the next read from a terminal fills; it returns at most one page. If the process is killed
        # during a page fault in that read, the kernel loses the 64 bytes that it has already taken from the terminal.
        extent[at] = 0
        extent[min(at + mmap.PAGESIZE, len(extent) - 1)] = 0
        self._view = memoryview(extent)[at:]
        return self._view

    def take(self, nbytes: int) -> bytes:
        """Add `nbytes` from the buffer to the log and return them."""
        if self._scratch is not None:
            data = bytes(self._scratch[:nbytes])
            self._tail += data
            if len(self._tail) > 2 * TAIL_BYTES:
                del self._tail[:-TAIL_BYTES]
        else:
            assert self._map is not None
            begin = self.size - self._base
            data = self._map[begin : begin + nbytes]
            self.persisted_size += nbytes
            self._position.store(self.persisted_size)
        self._last = self.size, data
        self.size += nbytes
        return data

    def not_persisted(self, spool_size: int) -> None:
        """Store the size of all output and of its text; some of it is in memory only."""
        self._position.store(self.size, spool_size, first=1)

    def size_on_disk(self) -> int:
        """Return the size of the file with the room allocated ahead; 0 if it was removed."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def other_files_bytes(self) -> int:
        """Return the size of all other files of the session."""
        return files_bytes(self.path.parent) - self.size_on_disk()

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes between two offsets, up to the first that is neither persisted nor among the last in memory."""
        last_begin, last = self._last  # in one step: other threads read too
        if last_begin <= begin <= end:
            return last[begin - last_begin : end - last_begin]
        data = read_range(self._fd, self.path, begin, min(end, self.persisted_size))
        if not self._tail:
            return data
        tail_begin, begin = self.size - len(self._tail), max(begin, self.persisted_size)
        return data + self._tail[begin - tail_begin : end - tail_begin] if tail_begin <= begin < end else data

    @property
    def last_received(self) -> bytes:
        """The bytes that were received last, in one piece."""
        return self._last[1]

    def holds(self, begin: int, end: int) -> bool:
        """Return whether all bytes between two offsets can be read."""
        return end <= self.persisted_size or self.readable_from() <= begin

    def readable_from(self) -> int:
        """Return the first offset after which all bytes can be read."""
        begin = self.size - len(self._tail)
        return begin if begin > self.persisted_size else 0

    def truncate(self, end: int) -> None:
        """Set the end of the received bytes; bytes after it were allocated only."""
        os.ftruncate(self._fd, end)
        self.size = self.persisted_size = end
        self._last = end, b""
        self._position.store(end)

    def set_received_size(self, size: int) -> None:
        """Set the number of received bytes if it exceeds the file. Further output is not persisted."""
        self.size = size
        self._last = size, b""
        self._scratch = bytearray(FIRST_EXTENT_BYTES)

    def close(self, *, recovered: bool = True) -> None:
        """Truncate the file to its content, close and unlock it. `read` still works.

        Args:
            recovered: False if recovery failed; output.end then stays for the next attempt.
        """
        if self._fd < 0:
            return
        self._unmap()
        with suppress(OSError):  # output.end keeps the size
            os.ftruncate(self._fd, min(self.persisted_size, os.fstat(self._fd).st_size))
        complete = self.size == self.persisted_size == os.fstat(self._fd).st_size
        self._position.close(remove=recovered and complete)
        os.close(self._fd)
        self._fd = -1
        self._scratch = bytearray(mmap.PAGESIZE)  # a channel may still deliver data while it ends

    def _extend(self) -> None:
        base = _align_to_page(self.size)  # less than `size` after recovery
        # the spool grows as much as this file
        room = (self._quota - self.other_files_bytes() - base) // 2
        length = _align_to_page(max(min(self._next_extent, room), 0))
        self._unmap()
        try:
            if base + length <= self.size:
                raise OSError("quota reached")
            os.posix_fallocate(self._fd, base, length)  # without it, a write on a full disk raises SIGBUS
            self._map = mmap.mmap(self._fd, length, offset=base)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self.size)  # drop a partial allocation
            self._stop()
            return
        self._base = base
        self._next_extent = min(self._next_extent * 2, LAST_EXTENT_BYTES)

    def _stop(self) -> None:
        """Stop persisting output."""
        self._unmap()
        self.persisted_size = min(self.persisted_size, os.fstat(self._fd).st_size)
        self._scratch = bytearray(FIRST_EXTENT_BYTES)

    def _release_view(self) -> None:
        if self._view is not None:
            self._view.release()
            self._view = None

    def _unmap(self) -> None:
        self._release_view()
        if self._map is not None:
            self._map.close()
            self._map = None


def _open_locked(path: Path) -> int:
    fd = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def files_bytes(folder: Path) -> int:
    """Return the size of all files in a folder and the folders in it."""
    size = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                size += files_bytes(Path(entry.path)) if entry.is_dir() else entry.stat().st_size
    return size


def _align_to_page(size: int) -> int:
    return size // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY


def read_range(fd: int, path: Path, begin: int, end: int) -> bytes:
    """Return the bytes of a file between two offsets. A closed file (`fd` < 0) is read through its path."""
    if begin >= end:
        return b""
    if fd >= 0:
        return os.pread(fd, end - begin, begin)
    with open_for_reading(path) as file:
        file.seek(begin)
        return file.read(end - begin)

"""The lock of a state directory: one server owns all sessions in it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.files import FILE_MODE

#: How long a new server waits for one that is closing its sessions (seconds).
_WAIT_S = 3.0
_POLL_S = 0.05


class StateLock:
    """A lock (flock(2)) on a file, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    async def acquire(self) -> None:
        """Take the lock; wait shortly for a server that is about to end.

        Raises:
            PtyctlError: BUSY, naming the process that holds the lock; IO_ERROR.
        """
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            message, hint = (
                f"{self._path} cannot be opened: {error.strerror}",
                "make the state directory writable for this user",
            )
            raise PtyctlError(ErrorCode.IO_ERROR, message, hint=hint) from None
        try:
            await self._acquire(fd)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    async def _acquire(self, fd: int) -> None:
        deadline = asyncio.get_running_loop().time() + _WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if asyncio.get_running_loop().time() >= deadline:
                    raise self._busy() from None
                await asyncio.sleep(_POLL_S)
            else:
                return

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _busy(self) -> PtyctlError:
        return PtyctlError(
            ErrorCode.BUSY,
            f"another server owns the sessions in {self._path.parent}: {describe_lock_holder(self._path)}",
            hint="use that server or end it first, or set PTYCTL_STATE_DIR to another directory",
        )


def describe_lock_holder(path: Path) -> str:
    """Return the process that holds a lock (flock(2)) on the file: its command line, if it can be read, and its id."""
    pid = _find_lock_holder(path)
    if pid is None:
        return "an unknown process"
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({' '.join(arguments).strip()})"


def _find_lock_holder(path: Path) -> int | None:
    """Return the holder's process id from proc_locks(5), which has a row for each lock: kind, pid, device and inode."""
    try:
        status = path.stat()
        rows = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for words in map(str.split, rows):
        if words[1] == "FLOCK" and words[5] == file:
            return int(words[4])
    return None

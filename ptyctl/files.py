"""Files of a state directory: opened safely, replaced atomically; and short-lived files in memory (tmpfs) where possible.

Anything may be in a state directory: a process that was killed, a full disk, a backup or a person may have put a FIFO, a
directory, a link or garbage in the place of a file. `open_file` is how all files in it are opened: it never blocks, follows no
link and returns regular files only. `read_json` bounds the size and the depth of what it reads.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

_LOG = logging.getLogger(__name__)
#: Mode of the files that servers write: only their user may read them.
FILE_MODE = 0o600
#: The largest JSON file that is read whole. meta.json, the largest one, takes some KB.
MAX_JSON_BYTES = 8 * 1024 * 1024
#: Appended to the name of a file that was set aside.
SET_ASIDE_SUFFIX = ".damaged"


class NotRegularFileError(OSError):
    """A FIFO, a socket, a device, a directory or a symbolic link is in the place of a file."""


def open_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file, without waiting and without following a link at its end; return the descriptor.

    A new file has the mode `FILE_MODE`.

    Raises:
        NotRegularFileError: something else has this name.
        OSError: the file cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, FILE_MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link; a FIFO without a reader or a socket; a directory
            raise _not_regular(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def open_for_reading(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, as `open_file`."""
    return io.BufferedReader(io.FileIO(open_file(path)))


def open_for_update(path: Path) -> BinaryIO:
    """Open an existing regular file for reading and writing. Raises OSError, as `open_file`."""
    return io.BufferedRandom(io.FileIO(open_file(path, os.O_RDWR), "r+"))


def open_for_writing(path: Path, flag: int) -> BinaryIO:
    """Open a regular file with `flag`, O_APPEND or O_TRUNC, or create it. Raises OSError, as `open_file`."""
    return io.BufferedWriter(io.FileIO(open_file(path, os.O_WRONLY | os.O_CREAT | flag), "w"))


def read_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: as `open_file`.
        ValueError: the file is larger than `max_bytes`.
    """
    with open_for_reading(path) as file:
        size = os.fstat(file.fileno()).st_size  # a read of more would allocate that much
        if size > max_bytes:
            raise ValueError(f"{path.name} is larger than {max_bytes} bytes")
        return file.read(size)


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Return the value in a JSON file.

    Raises:
        OSError: as `open_file`.
        ValueError: the content is no JSON, is too large, or nested too deeply.
    """
    return parse_json(read_file(path, max_bytes))


def parse_json(text: bytes | str) -> Any:
    """Return a JSON value. Raises ValueError if the text is no JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def set_aside(path: Path) -> str:
    """Rename what cannot be used, so that a new file can take its name; return the new name. Nothing is lost.

    An entry that was set aside earlier keeps its name.

    Raises:
        OSError: it cannot be renamed.
    """
    names = [path.with_name(f"{path.name}{SET_ASIDE_SUFFIX}{number}") for number in ("", *range(1, 100))]
    kept = next((name for name in names if not os.path.lexists(name)), names[-1])
    path.rename(kept)
    return kept.name


def make_usable(path: Path, max_bytes: int | None = None) -> str | None:
    """Set aside an entry that is no regular file, or that is too large; let this user read and write a file.

    Returns:
        What was wrong, and the new name of what was set aside; None if there is a usable file, or nothing.

    Raises:
        OSError: the entry cannot be changed.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return f"{path.name} is not a regular file, and was kept as {set_aside(path)}"
    if max_bytes is not None and status.st_size > max_bytes:
        return f"{path.name} is larger than {max_bytes} bytes, and was kept as {set_aside(path)}"
    if status.st_mode & FILE_MODE != FILE_MODE:
        path.chmod(FILE_MODE)
    return None


def open_lock_file(path: Path) -> int:
    """Open a file for flock(2). What is no file is set aside; an own file is made readable. Raises OSError."""
    if (why := make_usable(path)) is not None:  # an unreadable file keeps its name: another process may hold the lock
        _LOG.error("a lock file is damaged", extra={"file": str(path), "why": why})
    return open_file(path, os.O_RDWR | os.O_CREAT)


def _not_regular(path: Path) -> NotRegularFileError:
    return NotRegularFileError(errno.EINVAL, "it is not a regular file", str(path))


def replace_file(path: Path, text: str, *, sync: bool = False) -> None:
    """Replace a file atomically.

    Args:
        sync: return when the new content is on the disk, and not only in the page cache.

    Raises:
        OSError: the old file stays, unless only `sync` of its folder failed.
    """
    draft = path.with_name(f"{path.name}.new")
    try:
        os.close(_open_draft(draft))
        draft.write_text(text, "utf-8")
        if sync:
            _sync(draft)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    if sync:
        _sync(path.parent)


def _open_draft(draft: Path) -> int:
    """Open an empty draft. What is in its place, and is no file, is removed; a directory is an error."""
    with suppress(NotRegularFileError):
        return open_file(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    draft.unlink()
    return open_file(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_SHARED_MEMORY = Path("/dev/shm")


def write_memory_file(content: bytes) -> Path:
    """Write a file with mode 0600. The caller removes it.

    Not memfd_create(2): /proc/PID/fd of a process that forbids dumps is closed to others.

    Raises:
        OSError: the file can be written neither in memory nor in the default temporary folder.
    """
    with suppress(OSError):  # it does not exist, is full or read-only
        return _write_in(_SHARED_MEMORY, content)
    return _write_in(None, content)


def _write_in(folder: Path | None, content: bytes) -> Path:
    file, name = tempfile.mkstemp(prefix="ptyctl-", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
    except OSError:
        path.unlink()
        raise
    return path

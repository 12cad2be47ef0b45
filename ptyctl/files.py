"""Small files of all packages: atomic replacement, and short-lived files in memory (tmpfs) where possible."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

#: Mode of the files that servers write: only their user may read them.
FILE_MODE = 0o600


def replace_file(path: Path, text: str, *, sync: bool = False) -> None:
    """Replace a file atomically.

    Args:
        sync: return when the new content is on the disk, and not only in the page cache.

    Raises:
        OSError: the old file stays, unless only `sync` of its folder failed.
    """
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.touch(FILE_MODE)
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

"""Short-lived files for a local shell, in memory (tmpfs) where possible."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

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

"""Short-lived files for a local shell, in memory (tmpfs) where possible."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")


def write_memory_file(content: bytes) -> Path:
    """Write a file with mode 0600. The caller removes it.

    Not memfd_create(2): /proc/PID/fd of a process that forbids dumps is closed to others.
    """
    file, path = tempfile.mkstemp(prefix="ptyctl-", dir=_SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None)
    with os.fdopen(file, "wb") as opened:
        opened.write(content)
    return Path(path)

"""Atomic replacement of small files, for all packages that store some."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_FILE_MODE = 0o600


def replace_file(path: Path, text: str, *, sync: bool = False) -> None:
    """Replace a file atomically.

    Args:
        sync: return when the new content is on the disk, and not only in the page cache.

    Raises:
        OSError: the old file stays.
    """
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.touch(_FILE_MODE)
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

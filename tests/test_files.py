"""Short-lived files for local shells while the tmpfs cannot be used."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ptyctl import files
from ptyctl.files import write_memory_file


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("shared_memory", ["/proc", "/missing"])
def test_file_without_usable_shared_memory_is_in_the_temporary_folder(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, shared_memory: str
) -> None:
    """No file can be created in /proc."""
    monkeypatch.setattr(files, "_SHARED_MEMORY", Path(shared_memory))
    path = write_memory_file(b"content")
    assert (path.parent, path.read_bytes(), path.stat().st_mode & 0o777) == (temporary, b"content", 0o600)


@pytest.mark.parametrize("full", [1, 2])
def test_file_in_a_full_folder_is_removed(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: int) -> None:
    """The first or both folders are full."""
    shared_memory = tmp_path / "memory"
    shared_memory.mkdir()
    monkeypatch.setattr(files, "_SHARED_MEMORY", shared_memory)
    opened: list[int] = []
    real = os.fdopen

    def fdopen(file: int, mode: str) -> Any:
        opened.append(file)
        if len(opened) > full:
            return real(file, mode)
        os.close(file)
        return Path("/dev/full").open(mode)

    monkeypatch.setattr(os, "fdopen", fdopen)
    if full == 1:
        assert write_memory_file(b"content").read_bytes() == b"content"
    else:
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            write_memory_file(b"content")
    assert (len(list(shared_memory.iterdir())), len(list(temporary.iterdir()))) == (0, 2 - full)

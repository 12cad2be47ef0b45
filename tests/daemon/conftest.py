"""A daemon of each test's own, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.daemons import daemon_folder
from ptyctl.daemon.place import Place


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Place]:
    """Where nothing is up yet; whoever connects starts it."""
    with daemon_folder() as folder:
        monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(folder))
        monkeypatch.setenv("PTYCTL_STATE_DIR", str(tmp_path / "state"))
        yield Place(folder)

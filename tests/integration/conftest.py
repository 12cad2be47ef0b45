"""Fixtures: one real server of each kind per test module, and a controller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fixtures.servers.frr import Zebra, running_zebra
from fixtures.servers.openssh import OpenSshServer, running_sshd
from fixtures.tmux.server import TmuxServer, running_tmux
from ptyctl import LocalController
from ptyctl.controller.settings import Settings


@pytest.fixture(scope="module")
def sshd() -> Iterator[OpenSshServer]:
    with running_sshd() as server:
        yield server


@pytest.fixture(scope="module")
def zebra() -> Iterator[Zebra]:
    with running_zebra() as server:
        yield server


@pytest.fixture(scope="module")
def tmux() -> Iterator[TmuxServer]:
    with running_tmux() as server:
        yield server


@pytest.fixture
async def controller(tmp_path: Path) -> AsyncIterator[LocalController]:
    async with LocalController(Settings(state_dir=tmp_path / "state")) as local:
        yield local

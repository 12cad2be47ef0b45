"""Fixtures: one real server of each kind per test module, and a controller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.frr import Zebra, running_zebra
from fixtures.servers.openssh import OpenSshServer, running_sshd
from fixtures.servers.programs import require_program
from fixtures.tmux.server import TmuxServer, running_tmux
from ptyctl import LocalController, SessionHandle
from ptyctl.controller.settings import Settings
from tests.integration.test_ssh_exec import Start, target


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


@pytest.fixture
async def start(controller: LocalController, sshd: OpenSshServer) -> AsyncIterator[Start]:
    """Open SSH sessions with shell integration, of the login shell or a command."""
    async with AsyncExitStack() as opened:

        async def one(*command: str, **more: Any) -> SessionHandle:
            if command:
                require_program(command[0], command[0])
                more["command"] = command
            fields = target(sshd, **{"shell_integration": "auto", **more})
            return await opened.enter_async_context(await SessionHandle.open(controller, **fields))

        yield one

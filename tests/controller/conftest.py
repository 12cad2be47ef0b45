"""The controllers that must behave alike: each test of the suite runs on every one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.controller import LocalController
from ptyctl.controller.settings import Settings
from tests.controller.acting import BASH, MakeController, Open
from tests.controller.marks_acting import SHELLS
from tests.controller.pty_acting import Pty
from tests.controller.served import served


@pytest.fixture
def servers() -> dict[Controller, LocalController]:
    """Where the sessions of each controller live."""
    return {}


@pytest.fixture(params=["local", "remote"])
async def make_controller(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, servers: dict[Controller, LocalController]
) -> AsyncIterator[MakeController]:
    async with AsyncExitStack() as stack:

        async def make(**settings: Any) -> Controller:
            local = await stack.enter_async_context(LocalController(Settings(**settings)))
            controller: Controller = local
            if request.param == "remote":
                folder = tmp_path_factory.mktemp("run", numbered=True)
                folder.chmod(0o700)
                controller = await stack.enter_async_context(served(local, folder))
            servers[controller] = local
            return controller

        yield make


@pytest.fixture
async def controller(make_controller: MakeController) -> Controller:
    return await make_controller()


@pytest.fixture
async def open_session(controller: Controller) -> AsyncIterator[Open]:
    """Opens local sessions; `on` is the controller to use instead of the test's own."""
    opened: list[SessionHandle] = []

    async def open_one(*, on: Controller | None = None, **fields: Any) -> SessionHandle:
        handle = await SessionHandle.open(on or controller, **{"protocol": "local", "command": BASH, **fields})
        opened.append(handle)
        return handle

    yield open_one
    for handle in opened:
        await handle.close(force=True)


@pytest.fixture
def way() -> str:
    """How the end of a run is known in `bash`; a module may run its tests in both ways."""
    return "marks"


@pytest.fixture
async def bash(open_session: Open, way: str) -> SessionHandle:
    return await open_session(**({} if way == "marks" else {"shell_integration": "off"}))


@pytest.fixture
def pty(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> Pty:
    """A conversation whose shell is bash; it has no terminal until its first use."""
    monkeypatch.setenv("SHELL", require_program("bash", "bash"))
    return Pty(controller)


@pytest.fixture
async def shell(open_session: Open, request: pytest.FixtureRequest, tmp_path: Path) -> SessionHandle:
    """One of the shells with marks, as the test's parameter says."""
    command = SHELLS[request.param]
    require_program(command[0], command[0])
    (tmp_path / ".zshrc").touch()  # without one it asks questions
    env = {"HISTFILE": "/dev/null", "ZDOTDIR": str(tmp_path), "SHELL": require_program("bash", "bash")}
    return await open_session(command=command, env=env)

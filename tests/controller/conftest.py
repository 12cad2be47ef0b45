"""Controllers and sessions for the tests of `ptyctl.api.controller.Controller`.

Every test runs on a LocalController. A test marked `also_remote(reason)` runs a second time through a daemon's socket, and a
third time through a FleetController on another node. Both forward requests and replies unchanged, so they can differ only in
what passes the wire: each kind of request, reply and error, cancellation, progress, watched items and large payloads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import daemon_folder
from fixtures.servers.nats import delete_buckets
from fixtures.servers.programs import require_program
from ptyctl.api import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from tests.controller.conversation import Pty
from tests.controller.local_daemon import served
from tests.controller.marked_shells import SHELLS
from tests.controller.other_node import forwarded
from tests.controller.session_calls import BASH, MakeController, Open


@pytest.fixture
def servers() -> dict[Controller, LocalController]:
    """The LocalController behind each controller."""
    return {}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "also_remote(reason): run the test also through a daemon, which can differ there")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "make_controller" in metafunc.fixturenames:
        is_remote = metafunc.definition.get_closest_marker("also_remote") is not None
        params = ["local", "remote", "fleet"] if is_remote else ["local"]
        metafunc.parametrize("make_controller", params, indirect=True)


@pytest.fixture
async def make_controller(
    request: pytest.FixtureRequest, servers: dict[Controller, LocalController]
) -> AsyncIterator[MakeController]:
    async with AsyncExitStack() as stack:

        async def make(**settings: Any) -> Controller:
            local = await stack.enter_async_context(LocalController(Settings(**settings)))
            controller: Controller = local
            if request.param == "remote":
                controller = await stack.enter_async_context(served(local, stack.enter_context(daemon_folder())))
            if request.param == "fleet":
                cluster = request.getfixturevalue("nats_process")
                stack.push_async_callback(delete_buckets, cluster)
                controller = await stack.enter_async_context(forwarded(local, cluster, f"site{len(servers)}"))
            servers[controller] = local
            return controller

        yield make


@pytest.fixture
async def controller(make_controller: MakeController) -> Controller:
    return await make_controller()


@pytest.fixture
async def open_session(controller: Controller) -> AsyncIterator[Open]:
    """Open local sessions, closed after the test. `on` is a controller to use instead of the test's own."""
    opened: list[SessionHandle] = []

    async def open_one(*, on: Controller | None = None, **fields: Any) -> SessionHandle:
        handle = await SessionHandle.open(on or controller, **{"protocol": "local", "command": BASH, **fields})
        opened.append(handle)
        return handle

    yield open_one
    for handle in opened:
        await handle.close(force=True)


@pytest.fixture
def strategy() -> str:
    """How the end of a run in `bash` is detected: "marks" or "marker". A module may override it to run its tests with both."""
    return "marks"


@pytest.fixture
async def bash(open_session: Open, strategy: str) -> SessionHandle:
    return await open_session(**({} if strategy == "marks" else {"shell_integration": "off"}))


@pytest.fixture
def pty(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> Pty:
    """A conversation whose shell is bash. Its terminal opens at first use."""
    monkeypatch.setenv("SHELL", require_program("bash", "bash"))
    return Pty(controller)


@pytest.fixture
async def shell(open_session: Open, request: pytest.FixtureRequest, tmp_path: Path) -> SessionHandle:
    """The shell with marks that the test's parameter names."""
    command = SHELLS[request.param]
    require_program(command[0], command[0])
    (tmp_path / ".zshrc").touch()  # without the file zsh starts its setup dialogue
    env = {"HISTFILE": "/dev/null", "ZDOTDIR": str(tmp_path), "SHELL": require_program("bash", "bash")}
    return await open_session(command=command, env=env, cwd=str(tmp_path))  # a short prompt, in a clone of any path

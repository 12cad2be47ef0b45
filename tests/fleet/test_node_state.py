"""The state directory of a node: other servers and programs leave its consoles alone, also while the node is down."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from fixtures.servers.nats import running_nats
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from ptyctl.controller.session_factory import FLEET_STATE
from ptyctl.controller.settings import load_settings
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.fleet.typed_line import NODES, TypingNode, check_history, running_line


@pytest.fixture
def node_state(tmp_path: Path) -> Path:
    """The state directory of a node that is down."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / FLEET_STATE).write_text("id")
    return folder


async def open_console(controller: LocalController, port: int) -> SessionHandle:
    return await SessionHandle.open(
        controller, protocol="telnet", host="127.0.0.1", port=port, session_type="console", device_id="line"
    )


@pytest.mark.usefixtures("node_state")
@pytest.mark.parametrize("target", [None, "gone"], ids=["file", "dangling link"])
async def test_server_in_state_of_a_node_is_refused(node_state: Path, target: str | None) -> None:
    if target is not None:
        (node_state / FLEET_STATE).unlink()
        (node_state / FLEET_STATE).symlink_to(target)
    with pytest.raises(PtyctlError, match="belongs to a node of a fleet") as caught:
        async with LocalController(persistent=True):
            pass
    assert caught.value.code is ErrorCode.BUSY
    assert "ptyctl serve --fleet" in (caught.value.hint or "")


@pytest.mark.usefixtures("node_state")
async def test_library_in_state_of_a_node_opens_no_console() -> None:
    async with running_line() as line, LocalController() as controller:
        with pytest.raises(PtyctlError, match="belongs to a node of a fleet"):
            await open_console(controller, line.port)
        shell = await SessionHandle.open(controller, protocol="local", command=("sh",))
        assert (await shell.exec("echo hi")).stdout == "hi\n"


@pytest.mark.usefixtures("node_state")
async def test_client_starts_no_daemon_in_state_of_a_node(runtime_dir: RuntimeDir) -> None:
    with pytest.raises(PtyctlError, match="belongs to a node of a fleet"):
        await RemoteController.connect(runtime_dir)
    assert not runtime_dir.lock.exists()


async def test_directory_that_has_left_its_fleet_is_served(node_state: Path) -> None:
    (node_state / FLEET_STATE).unlink()
    async with running_line() as line, LocalController(persistent=True) as controller:
        assert (await open_console(controller, line.port)).opened.state == "open"


@pytest.mark.waits
async def test_console_has_one_writer_while_clients_come_to_killed_nodes_at_every_moment(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    refused: list[ErrorCode] = []

    async def come(state_dir: Path) -> None:
        settings = load_settings().model_copy(update={"state_dir": state_dir})
        while True:
            with pytest.raises(PtyctlError) as caught:
                async with LocalController(settings, persistent=True):
                    pass
            refused.append(caught.value.code)
            await asyncio.sleep(0)

    (tmp_path / "nats").mkdir()
    async with running_line() as line, AsyncExitStack() as stack:
        cluster = stack.enter_context(running_nats(tmp_path / "nats"))
        nodes = {name: TypingNode(cluster.urls, name, tmp_path, line.port) for name in NODES}
        for name, node in nodes.items():
            stack.push_async_callback(node.kill)
            await node.start()
            await line.until_typed_by("ab", 1) if name == "a" else None
        while not all((tmp_path / name / FLEET_STATE).exists() for name in NODES):  # noqa: ASYNC110 - of the other process
            await asyncio.sleep(0.05)
        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(come(tmp_path / name)) for name in NODES]
            for _ in range(max(1, request.config.getoption("--pauses") // 2)):
                owner = line.owner()
                seen = len(refused)
                await nodes[owner].kill()
                await line.until_typed_by(NODES[1 - NODES.index(owner)], 20)
                assert len(refused) > seen
                await nodes[owner].start()
                await line.until_typed_by("ab", 20)
            for client in clients:
                client.cancel()
        assert set(refused) == {ErrorCode.BUSY}
        await check_history(line, nodes.values(), at_least=20)

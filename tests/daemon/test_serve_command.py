"""`ptyctl serve`: the daemon with HTTP in addition to its socket. `ptyctl mcp --transport http`: a client of the daemon."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.forked_process import PTYCTL, ForkedProgram
from fixtures.http_client import loopback_client
from ptyctl import __version__
from ptyctl.api import SessionRequest
from ptyctl.daemon import control
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.mcp.http_server import TOKEN, http_client

pytestmark = pytest.mark.waits

PATIENCE_S = 60
SERVE = ["serve", "--listen", "127.0.0.1:0"]
HTTP = ["mcp", "--transport", "http", "--listen", "127.0.0.1:0"]


def start(*arguments: str) -> ForkedProgram:
    return ForkedProgram(PTYCTL, *(arguments or SERVE), environment={**os.environ, "PTYCTL_TOKEN": TOKEN})


async def refusal(*arguments: str) -> str:
    """Return the error message of a server that exits with code 2."""
    server = start(*arguments)
    _, said = await asyncio.to_thread(server.communicate)
    assert server.returncode == 2
    return said


async def first_message(server: ForkedProgram) -> str:
    """Return the first line of stderr, without the watchdog's warnings about a slow machine."""
    while "the event loop was blocked" in (line := await asyncio.to_thread(server.stderr.readline)):
        pass
    return line


async def end(server: ForkedProgram) -> None:
    server.send_signal(signal.SIGTERM)
    await asyncio.to_thread(server.communicate)
    assert server.returncode == 0


@pytest.fixture
async def url(runtime_dir: RuntimeDir) -> AsyncIterator[str]:
    server = start()
    said = await first_message(server)
    assert said.startswith("ptyctl: serving MCP at http://127.0.0.1:")
    up = await asyncio.to_thread(server.stdout.read)  # printed once the socket listens
    assert up == f"up: process {server.pid}, ptyctl {__version__}\n"
    yield said.split()[-1]
    await end(server)


async def test_http_and_socket_share_sessions(runtime_dir: RuntimeDir, url: str) -> None:
    async with http_client(url, "auto") as agent, await RemoteController.connect(runtime_dir, start=False) as controller:
        opened = await agent.call_tool("ptyctl_session", {"action": "open", "protocol": "local", "command": ["cat"]})
        assert opened.structured_content is not None
        listed = (await controller.session(SessionRequest(action="list"))).sessions or []
        assert [entry.session_id for entry in listed] == [opened.structured_content["session_id"]]


async def test_second_serve_exits_with_pid_and_next_step(runtime_dir: RuntimeDir, url: str) -> None:
    said = await refusal(*SERVE)
    assert "one is up already" in said
    assert "ptyctl daemon stop" in said


async def test_refused_token_has_a_row_in_the_audit_log(runtime_dir: RuntimeDir) -> None:
    server = start()
    said = await first_message(server)
    async with loopback_client(headers={"Authorization": "Bearer guess"}, timeout=PATIENCE_S) as http:
        assert (await http.get(said.split()[-1])).status_code == 401
    await end(server)
    files = (Path(os.environ["PTYCTL_STATE_DIR"]) / "audit").glob("*.jsonl")
    assert any('"event":"refused","via":"http","why":"unknown token"' in file.read_text() for file in files)


@pytest.fixture
async def client_url(runtime_dir: RuntimeDir) -> AsyncIterator[str]:
    server = start(*HTTP)
    said = await first_message(server)
    assert said.startswith("ptyctl: serving MCP at http://127.0.0.1:"), said
    yield said.split()[-1]
    await end(server)


async def test_http_server_shares_sessions_with_daemon_and_follows_its_successor(
    runtime_dir: RuntimeDir, client_url: str
) -> None:
    console = {"action": "open", "protocol": "local", "command": ["cat"], "session_type": "console", "device_id": "sw1"}
    async with http_client(client_url, "auto") as agent:
        async with await RemoteController.connect(runtime_dir, start=False) as controller:
            first = await controller.session(SessionRequest.of({**console, "task_id": "a", "acquire_lock": True}))
        second = (await agent.call_tool("ptyctl_session", {**console, "task_id": "b"})).structured_content
        assert second is not None
        assert (second["existing_session_id"], second["lock_holder"]) == (first.session_id, "a")
        await asyncio.to_thread(control.hand_over, runtime_dir)
        listed = (await agent.call_tool("ptyctl_session", {"action": "list"})).structured_content
        assert listed is not None
        assert [entry["session_id"] for entry in listed["sessions"]] == [first.session_id]


async def test_standalone_server_beside_daemon_exits_and_names_it(runtime_dir: RuntimeDir) -> None:
    daemon = await asyncio.to_thread(control.start, runtime_dir)
    said = await refusal(*HTTP, "--standalone")
    assert f"process {daemon.pid} (" in said
    assert "ptyctl.daemon" in said

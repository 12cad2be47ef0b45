"""`ptyctl serve`: the daemon with HTTP in addition to its socket."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator

import pytest

from ptyctl import __version__
from ptyctl.api import SessionRequest
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.mcp.http_server import TOKEN, http_client

PATIENCE_S = 60
SERVE = ["-c", "from ptyctl.cli import main; main()", "serve", "--listen", "127.0.0.1:0"]


async def start() -> Process:
    environment = {**os.environ, "PTYCTL_TOKEN": TOKEN}
    return await asyncio.create_subprocess_exec(sys.executable, *SERVE, stdout=PIPE, stderr=PIPE, env=environment)


@pytest.fixture
async def url(runtime_dir: RuntimeDir) -> AsyncIterator[str]:
    server = await start()
    assert server.stdout is not None
    assert server.stderr is not None
    said = await asyncio.wait_for(server.stderr.readline(), PATIENCE_S)
    assert said.startswith(b"ptyctl: serving MCP at http://127.0.0.1:")
    up = await asyncio.wait_for(server.stdout.read(), PATIENCE_S)  # printed once the socket listens
    assert up.decode() == f"up: process {server.pid}, ptyctl {__version__}\n"
    yield said.decode().split()[-1]
    server.terminate()
    assert await asyncio.wait_for(server.wait(), PATIENCE_S) == 0


async def test_http_and_socket_share_sessions(runtime_dir: RuntimeDir, url: str) -> None:
    async with http_client(url, "auto") as agent, await RemoteController.connect(runtime_dir, start=False) as controller:
        opened = await agent.call_tool("ptyctl_session", {"action": "open", "protocol": "local", "command": ["cat"]})
        assert opened.structured_content is not None
        listed = (await controller.session(SessionRequest(action="list"))).sessions or []
        assert [entry.session_id for entry in listed] == [opened.structured_content["session_id"]]


async def test_second_serve_exits_with_pid_and_next_step(runtime_dir: RuntimeDir, url: str) -> None:
    second = await start()
    _, said = await asyncio.wait_for(second.communicate(), PATIENCE_S)
    assert second.returncode == 2
    assert b"one is up already" in said
    assert b"ptyctl daemon stop" in said

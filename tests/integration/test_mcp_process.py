"""`ptyctl mcp` as a process with a real shell, driven by MCP clients with and without version discovery."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from fixtures.daemons import daemon_folder
from fixtures.forked_process import PTYCTL
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.session.clients import user
from tests.mcp.server_process import client_streams, ptyctl_process

PATIENCE_S = 60
#: Options of `ptyctl mcp`: sessions in its own process, or in the daemon.
OPTIONS = [["--standalone"], []]


@pytest.fixture
def runtime() -> Iterator[Path]:
    with daemon_folder() as folder:
        yield folder


@asynccontextmanager
async def client(
    state: Path, runtime: Path, options: list[str], mode: str = "auto", *, forked: bool = True
) -> AsyncIterator[Client]:
    """Start `ptyctl mcp`, forked or as a client starts it."""
    variables = {"PTYCTL_STATE_DIR": str(state), "PTYCTL_RUNTIME_DIR": str(runtime)}
    arguments = ["-c", PTYCTL, "mcp", *options]
    program = StdioServerParameters(command=sys.executable, args=arguments, env={**os.environ, **variables})
    transport = client_streams(ptyctl_process("mcp", *options, **variables)) if forked else stdio_client(program)
    async with Client(transport, mode=mode, read_timeout_seconds=PATIENCE_S) as connected:
        yield connected


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert result.structured_content is not None
    return {**result.structured_content, "is_error": bool(result.is_error)}


@pytest.mark.parametrize(("mode", "options"), [("legacy", ["--standalone"]), ("auto", [])], ids=["standalone", "daemon"])
async def test_local_shell_workflow_succeeds(tmp_path: Path, runtime: Path, options: list[str], mode: str) -> None:
    async with client(tmp_path / "state", runtime, options, mode, forked="--standalone" in options) as agent:
        opened = await call(agent, "ptyctl_session", action="open", protocol="local", command=["bash", "--norc"], task_id="t1")
        session = {"session_id": opened["session_id"], "task_id": "t1"}
        done = await call(agent, "ptyctl_session_exec", **session, cmd="echo hi; (exit 3)")
        assert (done["stdout"], done["exit_code"], done["done_reason"]) == ("hi\n", 3, "marks")
        locked = await call(agent, "ptyctl_session", action="lock", **session)
        assert locked["lock_holder"] == "t1"
        refused = await call(agent, "ptyctl_session_exec", session_id=opened["session_id"], cmd="true", task_id="t2")
        assert (refused["is_error"], refused["error_code"]) == (True, "LOCKED")
        assert "Session locked by task t1" in refused["message"]
        written = await call(agent, "ptyctl_session_io", action="write", **session, data="echo typed\n")
        read = await call(
            agent, "ptyctl_session_io", action="read", **session, cursor=written["next_cursor"], until_regex="(?m)^typed$"
        )
        assert read["matched"]
        sizes = await call(agent, "ptyctl_session_config", action="resize", **session, cols=100, rows=30)
        assert (sizes["cols"], sizes["rows"]) == (100, 30)
        listed = await call(agent, "ptyctl_session", action="list")
        assert [entry["session_id"] for entry in listed["sessions"]] == [opened["session_id"]]
        closed = await call(agent, "ptyctl_session", action="close", **session)
        assert closed["success"]
        gone = await call(agent, "ptyctl_session_exec", **session, cmd="true")
        assert gone["error_code"] == "ALREADY_CLOSED"
    transcripts = list((tmp_path / "state" / "sessions").iterdir())
    assert [path.stat().st_mode & 0o777 for path in transcripts] == [0o700]
    raw = (transcripts[0] / "output.raw").read_bytes()
    assert b"hi\r\n" in raw
    for path in transcripts[0].rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("options", OPTIONS, ids=["standalone", "daemon"])
async def test_agent_owns_its_sessions_apart_from_those_of_the_user(tmp_path: Path, runtime: Path, options: list[str]) -> None:
    async with client(tmp_path / "state", runtime, options) as agent:
        opened = await call(agent, "ptyctl_session", action="open", protocol="local", command=["bash", "--norc"])
        (entry,) = (await call(agent, "ptyctl_session", action="list"))["sessions"]
        assert entry["opened_by"] == f"{user().name}/mcp"
        if not options:  # the user uses the same daemon
            async with await RemoteController.connect(RuntimeDir(runtime), start=False) as controller:
                theirs = await SessionHandle.open(controller, protocol="local", command=("bash", "--norc"))
                refused = await call(agent, "ptyctl_session", action="close", session_id=theirs.session_id)
                assert refused["error_code"] == "FORBIDDEN"
                assert "role admin" in refused["hint"]
                await theirs.close()
        assert (await call(agent, "ptyctl_session", action="close", session_id=opened["session_id"]))["success"]


@pytest.mark.parametrize("options", OPTIONS, ids=["standalone", "daemon"])
async def test_world_readable_state_directory_is_refused(tmp_path: Path, runtime: Path, options: list[str]) -> None:
    state = tmp_path / "open-to-all"
    state.mkdir()
    state.chmod(0o755)
    async with client(state, runtime, options) as agent:
        refused = await call(agent, "ptyctl_session", action="open", protocol="local")
    assert refused["error_code"] == "POLICY_DENIED"
    assert f"chmod 700 {state}" in refused["hint"]

"""`ptyctl mcp` without the daemon: options, errors, signals, and both transports at once."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.cli import mcp_server
from ptyctl.cli.mcp_server import McpTransport
from ptyctl.mcp.toolsets import choose
from tests.mcp.http_server import http_client
from tests.mcp.server_process import PATIENCE_S, ServerProcess, command, environment, server_process
from tests.mcp.stub_controller import CLOSED, StubController

LIST = {"action": "list"}
TOKEN = "of-the-environment"


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line on stderr."""
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ptyctl: ")
    assert said.err.count("\n") == 1
    return said.err


def untouched() -> StubController:
    raise AssertionError("a controller was opened")


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def test_unknown_toolset_exits_with_available_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert mcp_server.run(McpTransport.STDIO, toolsets="core,nope", open_controller=untouched) == 2
    assert "no toolset 'nope'; available: core, pty, blocks, screen, approvals, terminal, all" in refusal(capsys)


@pytest.mark.parametrize("transport", [McpTransport.HTTP, McpTransport.BOTH])
def test_address_that_is_not_loopback_exits_with_tunnel_command(
    transport: McpTransport, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mcp_server.run(transport, "0.0.0.0:8765", open_controller=untouched) == 2
    assert "ssh -L 8765:127.0.0.1:8765" in refusal(capsys)


def test_port_in_use_exits_with_next_step(busy_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert mcp_server.run(McpTransport.HTTP, f"127.0.0.1:{busy_port}", open_controller=untouched) == 2
    assert f"127.0.0.1:{busy_port}: the port is in use; choose another one" in refusal(capsys)


def test_token_file_readable_by_others_exits_with_chmod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "token"
    file.write_text("token-of-the-file")
    file.chmod(0o644)
    assert mcp_server.run(McpTransport.HTTP, "127.0.0.1:0", token_file=file, open_controller=untouched) == 2
    said = refusal(capsys)
    assert f"chmod 600 {file}" in said
    assert "token-of-the-file" not in said


def test_controller_that_cannot_start_exits_with_its_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.stderr_log.log_to_stderr", lambda: None)  # keeps pytest's handlers

    def refused() -> StubController:
        raise PtyctlError(ErrorCode.POLICY_DENIED, "others can read the state directory: chmod 700 it")

    assert mcp_server.run(McpTransport.STDIO, open_controller=refused) == 2
    assert "POLICY_DENIED: others can read" in refusal(capsys)


def test_invalid_option_is_reported_before_sdk_is_imported() -> None:
    script = (
        "import sys\n"
        "from ptyctl.cli import mcp_server\n"
        "code = mcp_server.run(mcp_server.McpTransport.HTTP, listen='0.0.0.0:1')\n"
        "assert not {'mcp', 'uvicorn', 'asyncssh'} & set(sys.modules), 'heavy'\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([command()[0], "-c", script], capture_output=True, env=environment(), timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (2, b"")


async def url_of(server: ServerProcess) -> str:
    return (await server.log_until(r"serving MCP at (http://\S+/mcp)"))[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_ends_http_server_with_exit_code_0(number: signal.Signals) -> None:
    async with server_process("http", PTYCTL_TOKEN=TOKEN) as server:
        async with http_client(await url_of(server), "legacy", TOKEN) as client:
            await client.call_tool("ptyctl_session", LIST)
        server.process.send_signal(number)
        assert await server.end() == (0, f"{CLOSED}\n")


async def test_generated_token_is_printed_and_accepted() -> None:
    async with server_process("http") as server:
        url = await url_of(server)
        token = (await server.log_until(r"bearer token, shown only now: (\S+)"))[1]
        async with http_client(url, "auto", token) as client:
            await client.call_tool("ptyctl_session", LIST)
        server.process.send_signal(signal.SIGTERM)
        assert await server.end() == (0, f"{CLOSED}\n")


async def test_token_of_file_overrides_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("token-of-the-file\n")
    file.chmod(0o600)
    async with server_process("http", "127.0.0.1:0", "all", str(file), PTYCTL_TOKEN="another") as server:
        async with http_client(await url_of(server), "auto", "token-of-the-file") as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {tool.name for tool in choose("all")}
        server.process.send_signal(signal.SIGTERM)
        assert (await server.end())[0] == 0


async def test_stdio_and_http_share_sessions_and_end_with_stdin() -> None:
    async with server_process("both", PTYCTL_TOKEN=TOKEN) as server:
        await server.initialize()
        server.call("ptyctl_session", **LIST)
        assert (await server.receive())["result"]["structuredContent"]["message"] == "call 1"
        async with http_client(await url_of(server), "auto", TOKEN) as client:
            reply = await client.call_tool("ptyctl_session", LIST)
            assert reply.structured_content["message"] == "call 2"
        server.stdin.close()
        assert await server.end() == (0, f"{CLOSED}\n")


async def test_connected_http_client_does_not_delay_shutdown() -> None:
    """A client of the 2025 revisions keeps a stream open as long as it lives."""
    async with server_process("both", PTYCTL_TOKEN=TOKEN) as server:
        url, gone = await url_of(server), asyncio.Event()

        async def stay() -> None:
            async with http_client(url, "legacy", TOKEN) as client:
                await client.list_tools()
                gone.set()
                await asyncio.Event().wait()

        staying = asyncio.create_task(stay())
        await asyncio.wait_for(gone.wait(), PATIENCE_S)
        server.stdin.close()
        code, log = await server.end()
        staying.cancel()
        await asyncio.gather(staying, return_exceptions=True)
        assert (code, log) == (0, f"{CLOSED}\n")


@pytest.mark.parametrize(
    "server",
    [
        "mcp_server.run(mcp_server.McpTransport.HTTP, '127.0.0.1:0', open_controller=report)",
        "main.run = report; mcp_server.run_with_daemon('127.0.0.1:0', 'core', None, exposure=lambda: NOT_EXPOSED)",
    ],
    ids=["mcp", "serve"],
)
async def test_token_is_removed_from_inherited_environment_and_proc(server: str) -> None:
    script = (
        "import os, sys\n"
        "from ptyctl.cli import mcp_server\n"
        "from ptyctl.daemon import main\n"
        "from ptyctl.http.access import NOT_EXPOSED\n"
        "def report(*_, **__):\n"
        "    try:\n"
        "        shown = open('/proc/self/environ').read()\n"
        "    except PermissionError:\n"  # root alone may read that of a process that is not dumpable
        "        shown = ''\n"
        "    sys.exit('inherited' if 'PTYCTL_TOKEN' in f'{list(os.environ)}{shown}' else 'not inherited')\n"
        f"{server}\n"
    )
    process = await asyncio.create_subprocess_exec(
        *[command()[0], "-c", script],
        env={**environment(), "PTYCTL_TOKEN": TOKEN},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, log = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert re.search(rb"^not inherited$", log, re.MULTILINE)
    assert TOKEN.encode() not in log

"""An MCP server in one network namespace uses the terminals of a daemon through a bridge in another one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from fixtures.forked_process import PTYCTL
from fixtures.servers.programs import require, require_program
from ptyctl.api.session import SessionRequest
from ptyctl.daemon.bridge import bridge_principal
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.terminal.adapters.base import ConnectInput
from ptyctl.terminal.adapters.local import LocalAdapter
from ptyctl.terminal.runtime_mode import LocalSettings

TOKEN = "t" * 43
HOST, CONTAINER = "10.99.0.1", "10.99.0.2"
INTERACTIVE = {"mode": "interactive", "intent": "execute_command"}
TOOL = "memory_terminal_interactive"


@asynccontextmanager
async def namespace() -> AsyncIterator[list[str]]:
    """Yield the start of command lines that run in a new network namespace."""
    unshare, enter = require_program("unshare", "util-linux"), require_program("nsenter", "util-linux")
    holder = await asyncio.create_subprocess_exec(unshare, "-n", "sh", "-c", "echo up; exec cat", stdin=PIPE, stdout=PIPE)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        up = await holder.stdout.readline()
        require(up == b"up\n", "network namespaces are not allowed here")
        yield [enter, "-t", str(holder.pid), "-n"]
    finally:
        holder.stdin.close()
        await holder.wait()


@asynccontextmanager
async def namespaces() -> AsyncIterator[tuple[list[str], list[str]]]:
    """Yield the start of command lines for a host and a container that are connected, and nothing else."""
    require(os.geteuid() == 0, "network namespaces need root")
    ip = require_program("ip", "iproute2")
    async with namespace() as host, namespace() as container:

        async def set_up(place: list[str], *arguments: str) -> None:
            step = await asyncio.create_subprocess_exec(*place, ip, *arguments, stderr=subprocess.STDOUT, stdout=PIPE)
            output = (await step.communicate())[0].decode()
            require(step.returncode == 0, f"ip {' '.join(arguments)}: {output}")

        await set_up(host, "link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", container[2])
        for place, link, address in ((host, "veth0", HOST), (container, "veth1", CONTAINER)):
            await set_up(place, "addr", "add", f"{address}/24", "dev", link)
            await set_up(place, "link", "set", link, "up")
            await set_up(place, "link", "set", "lo", "up")
        yield host, container


@asynccontextmanager
async def bridge(host: list[str], token_file: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    variables = {**os.environ, "PM_INTERACTIVE_TERMINAL_TOKEN_FILE": str(token_file)}
    command = [*host, sys.executable, "-c", PTYCTL, "bridge", "--listen", f"{HOST}:45459"]
    process = await asyncio.create_subprocess_exec(*command, env=variables, stderr=PIPE)
    assert process.stderr is not None
    try:
        assert b"serving terminals" in await process.stderr.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_server_in_a_container_uses_the_terminals_of_the_host(
    tmp_path: Path, runtime_dir: RuntimeDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", require_program("bash", "bash"))
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    async with namespaces() as (host, container), await RemoteController.connect(runtime_dir) as daemon:
        variables = {
            **os.environ,
            "PTYCTL_STATE_DIR": str(tmp_path / "container"),
            "PM_RUNNING_IN_CONTAINER": "true",
            "PM_INTERACTIVE_TERMINAL_TOKEN": TOKEN,
            "PM_INTERACTIVE_TERMINAL_HOST_ALIAS": "127.0.0.1",  # of the container, where nothing listens
            "PM_INTERACTIVE_TERMINAL_HOST_FALLBACK_ALIAS": HOST,
            "PM_INTERACTIVE_TERMINAL_CONNECT_TIMEOUT_MS": "30000",
        }
        arguments = [*container[1:], sys.executable, "-c", PTYCTL, "mcp", "--standalone", "--toolsets", "terminal"]
        program = StdioServerParameters(command=container[0], args=arguments, env=variables)
        async with Client(stdio_client(program), read_timeout_seconds=60) as client:

            async def call(action: str, **fields: Any) -> dict[str, Any]:
                correlation = {"trace_id": "trace_t"}
                result = await client.call_tool(TOOL, {"action": action, "correlation": correlation, **fields})
                response: dict[str, Any] = result.structured_content or {}
                assert response["correlation"]["trace_id"] == "trace_t"
                return response

            unreachable = await call("list")
            assert unreachable["error"]["code"] == "PM_TERM_GUI_UNAVAILABLE"
            assert unreachable["error"]["details"]["attempted_candidates"] == ["127.0.0.1:45459", f"{HOST}:45459"]
            async with bridge(host, token_file) as first:
                execution = {"command": "echo on the $((40 + 2)) [$PM_INTERACTIVE_TERMINAL_TOKEN]", "name": "x"}
                ran = await call("execute", invocation=INTERACTIVE, execution=execution, runtime={"timeout_ms": 50_000})
                assert ran["result"]["stdout"] == "on the 42 []\n"
                entries = (await daemon.session(SessionRequest(action="list", details=True))).sessions or []
                assert [(entry.session_id, entry.opened_by) for entry in entries] == [
                    (ran["identity"]["session_id"], bridge_principal(TOKEN).name)
                ]
                first.kill()
                await first.wait()
            lost = await call("list")
            assert lost["error"]["code"] in ("PM_TERM_DISCONNECTED", "PM_TERM_GUI_UNAVAILABLE")
            async with bridge(host, token_file):
                (item,) = (await call("list"))["result"]["items"]
                assert item["terminal_id"] == "term_x"
                assert (await call("terminate", target={"terminal_id": "term_x"}))["success"]


async def test_ptyctl_is_a_program_of_the_local_adapter(tmp_path: Path, runtime_dir: RuntimeDir) -> None:
    program = tmp_path / "ptyctl"
    program.write_text(f"#!{sys.executable}\n{PTYCTL}\n")
    program.chmod(0o755)
    async with await RemoteController.connect(runtime_dir) as daemon:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        adapter = LocalAdapter(LocalSettings(str(program), "", 30_000, 30_000), environment)
        result = await adapter.connect(ConnectInput("trace_t"))
        assert (result.source, result.protocol_version) == (str(program), 1)
        assert (await adapter.health_check()).healthy
        await adapter.close()
        assert (await daemon.session(SessionRequest(action="list"))).sessions == []


async def test_program_refuses_what_is_no_handshake() -> None:
    command = [sys.executable, "-c", PTYCTL, "daemon", "--stdio-handshake"]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    output, _ = await process.communicate(b"nonsense\n")
    assert (process.returncode, b'"ready":false' in output) == (2, True)

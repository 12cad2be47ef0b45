"""The stdio transport in a separate process: clients of all revisions, and shutdown."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

from ptyctl import __version__
from tests.mcp.progress_log import ProgressLog
from tests.mcp.server_process import (
    PATIENCE_S,
    ROOT,
    blocking_server_process,
    client_streams,
    command,
    environment,
    fork_server,
    server_process,
)
from tests.mcp.stub_controller import CLOSED

ERAS = ["legacy", LATEST_MODERN_VERSION, "auto"]
EXEC = "ptyctl_session_exec"


def stdio_client(mode: str) -> Client:
    """Return a client of a server that is forked, except for one mode, where the SDK starts it as a client does."""
    if mode != "auto":
        return Client(client_streams(server_process()), mode=mode, read_timeout_seconds=PATIENCE_S)
    program, *arguments = command()
    server = StdioServerParameters(command=program, args=arguments, env=environment(), cwd=ROOT)
    return Client(server, mode=mode, read_timeout_seconds=PATIENCE_S)


@pytest.mark.parametrize("mode", ERAS)
async def test_sdk_client_of_each_revision_reads_server_info_and_calls_tools(mode: str) -> None:
    progress = ProgressLog()
    async with stdio_client(mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else LATEST_MODERN_VERSION)
        if mode != LATEST_MODERN_VERSION:  # a client of a given revision does not ask for it
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("ptyctl", __version__)
            assert "ptyctl_session open" in (client.instructions or "")
        assert len((await client.list_tools()).tools) == 4
        opened = await client.call_tool("ptyctl_session", {"action": "open", "protocol": "local"})
        assert opened.structured_content["session_id"] == "s1"
        refused = await client.call_tool(EXEC, {"session_id": "s1", "cmd": "fail LOCKED"})
        assert (refused.is_error, refused.structured_content["error_code"]) == (True, "LOCKED")
        big = await client.call_tool(EXEC, {"session_id": "s1", "cmd": "big 1000000"})
        assert len(big.structured_content["stdout"]) == 1_000_000
        call = {"session_id": "s1", "cmd": "progress 0.5 1.5 1.6 2.7 2.8 4"}
        assert (await client.call_tool(EXEC, call, progress_callback=progress)).structured_content["stdout"] == "told"
    progress.check()


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_client_of_each_older_revision_can_call_tools(revision: str) -> None:
    async with server_process() as server:
        assert (await server.initialize(revision))["protocolVersion"] == revision
        server.ask("tools/list")
        assert len((await server.receive())["result"]["tools"]) == 4
        server.call(EXEC, session_id="s", cmd="fail BUSY")
        result = (await server.receive())["result"]
        assert result["isError"]
        assert json.loads(result["content"][0]["text"])["error_code"] == "BUSY"
        server.call(EXEC, session_id="s", cmd="echo hi")
        result = (await server.receive())["result"]
        assert json.loads(result["content"][0]["text"])["stdout"] == "hi"
        if revision >= "2025-06-18":
            assert result["structuredContent"]["exit_code"] is None
        assert server.notifications == []  # no progress was requested


async def test_invalid_lines_tools_and_arguments_return_errors() -> None:
    async with server_process() as server:
        await server.initialize()
        server.stdin.write(b"nonsense\n")
        assert (await server.receive())["error"]["code"] == -32700
        server.call("ptyctl_sesion")
        assert "Available: ptyctl_session, " in (await server.receive())["error"]["message"]
        server.ask("tools/call", {"name": "ptyctl_session"})
        answer: dict[str, Any] = (await server.receive())["result"]
        assert answer["structuredContent"]["error_code"] == "INVALID_ARGUMENT"
        server.ask("resources/list")
        assert (await server.receive())["error"]["code"] == -32601


async def test_concurrent_call_can_be_cancelled() -> None:
    async with server_process() as server:
        await server.initialize()
        hanging = server.call(EXEC, session_id="s", cmd="hang")
        await server.log_until("stub controller hangs")
        server.call(EXEC, session_id="s", cmd="echo meanwhile")
        assert (await server.receive())["result"]["structuredContent"]["stdout"] == "meanwhile"
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": hanging}})
        server.call(EXEC, session_id="s", cmd="echo after")
        assert (await server.receive())["result"]["structuredContent"]["stdout"] == "after"


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("how", ["eof", "SIGTERM", "SIGINT"])
async def test_eof_or_signal_ends_server_with_exit_code_0(how: str, busy: bool) -> None:
    async with server_process() as server:
        await server.initialize()
        if busy:
            server.call(EXEC, session_id="s", cmd="hang")
            await server.log_until("stub controller hangs")
        if how == "eof":
            server.stdin.close()
        else:
            server.process.send_signal(signal.Signals[how])
        code, log = await server.end()
        assert (code, log.strip()) == (0, CLOSED)


async def test_eof_before_any_request_ends_server() -> None:
    async with server_process() as server:
        server.stdin.close()
        assert await server.end() == (0, f"{CLOSED}\n")


@pytest.mark.parametrize("how", ["vanishes", "SIGTERM"])
def test_client_that_does_not_read_does_not_delay_shutdown(how: str) -> None:
    """The server is writing a reply larger than the pipe's buffer."""
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "deaf", "version": "1"}}
    call = {"name": EXEC, "arguments": {"session_id": "s", "cmd": "big 4000000"}}
    with blocking_server_process() as (process, stdin, stdout, stderr):
        for number, (method, params) in enumerate([("initialize", info), ("tools/call", call)]):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            stdin.write(json.dumps(request).encode() + b"\n")
            assert stdout.read(1) == b"{"
            if method == "initialize":
                stdout.readline()
        if how == "vanishes":
            stdin.close()
            stdout.close()
        else:
            process.send_signal(signal.SIGTERM)
        assert stderr.read().decode().strip() == CLOSED
        assert process.wait(PATIENCE_S) == 0


def test_stdin_and_stdout_may_be_files(tmp_path: Path) -> None:
    """Shell redirections, as in a manual test. The end of the file is the end of the client."""
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "file", "version": "1"}}
    (tmp_path / "in").write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info}))
    with (tmp_path / "in").open() as requests, (tmp_path / "out").open("w") as answers, (tmp_path / "log").open("w") as log:
        process = fork_server((requests.fileno(), answers.fileno(), log.fileno()))
        assert process.wait(PATIENCE_S) == 0
    assert (tmp_path / "log").read_text().strip() == CLOSED
    assert json.loads((tmp_path / "out").read_text())["result"]["serverInfo"]["name"] == "ptyctl"


def test_null_stdin_ends_server(tmp_path: Path) -> None:
    with Path(os.devnull).open() as null, (tmp_path / "out").open("w") as answers, (tmp_path / "log").open("w") as log:
        process = fork_server((null.fileno(), answers.fileno(), log.fileno()))
        assert process.wait(PATIENCE_S) == 0
    assert ((tmp_path / "out").read_text(), (tmp_path / "log").read_text().strip()) == ("", CLOSED)


def test_stray_prints_go_to_stderr_and_children_cannot_read_stdin() -> None:
    script = (
        "import asyncio, os, subprocess, sys\n"
        "from ptyctl.mcp.stdio import standard_streams\n"
        "async def main():\n"
        "    async with standard_streams() as (source, sink):\n"
        "        print('stray', flush=True)\n"
        "        subprocess.run(['sh', '-c', 'echo child; cat'])\n"
        "        sink.write(b'wire\\n' + await source.readline())\n"
        "        await sink.drain()\n"
        "    print('restored', input(), flush=True)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [command()[0], "-c", script], input=b"one\n", capture_output=True, env=environment(), timeout=PATIENCE_S, check=False
    )
    assert done.stdout.splitlines()[:2] == [b"wire", b"one"]
    assert done.stderr.decode().splitlines()[:2] == ["stray", "child"]


async def test_200_concurrent_calls_are_all_answered() -> None:
    async with server_process() as server:
        await server.initialize()
        asked = {server.call(EXEC, session_id="s", cmd=f"echo {number}"): str(number) for number in range(200)}
        answers = [await asyncio.wait_for(server.receive(), PATIENCE_S) for _ in asked]
        assert {answer["id"]: answer["result"]["structuredContent"]["stdout"] for answer in answers} == asked


async def test_lone_surrogate_is_answered_with_the_callers_id() -> None:
    async with server_process() as server:
        await server.initialize()
        call_id = server.call(EXEC, session_id="s1", cmd="half \ud83d")
        answer = await server.receive()
        assert answer["id"] == call_id
        error = answer["result"]["structuredContent"]
        assert (error["error_code"], error["details"]["fields"][0]["field"]) == ("INVALID_ARGUMENT", "cmd")
        named_id = server.ask("no/such\ud800method")
        answer = await server.receive()
        assert (answer["id"], "error" in answer) == (named_id, True)


async def test_request_that_strict_parsers_reject_is_answered_with_its_id() -> None:
    deep = "[" * 300 + "]" * 300
    async with server_process() as server:
        await server.initialize()
        for number, timeout in enumerate(("9" * 5000, deep, "[" * 9000 + "]" * 9000), 100):
            arguments = f'{{"session_id":"s1","cmd":"x","timeout_ms":{timeout}}}'
            params = f'{{"name":"{EXEC}","arguments":{arguments}}}'
            server.stdin.write(f'{{"method":"tools/call","params":{params},"jsonrpc":"2.0","id":{number}}}'.encode() + b"\n")
            answer = await server.receive()
            assert answer["id"] == number
            if number < 102:
                error = answer["result"]["structuredContent"]
                assert (error["error_code"], error["details"]["fields"][0]["field"]) == ("INVALID_ARGUMENT", "timeout_ms")
            else:
                assert answer["error"]["code"] == -32700

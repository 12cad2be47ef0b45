"""Rows tool-call, tool-shim and shim-ready: the MCP server over stdio.

tool-* read the end of an idle session's output; the echo tool of a minimal server returns the same amount of text. shim-ready
measures `ptyctl mcp` with a running daemon, from the start of its process to its response to `initialize`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import Client, StdioServerParameters

from fixtures.daemons import daemon_folder
from ptyctl.daemon import control
from ptyctl.daemon.runtime_dir import RuntimeDir

from .measurement import OURS, Candidate, Plan, Result, TimedCall, Unavailable, in_milliseconds, measure, timed
from .sessions import opened_session
from .table import Aim, Row

ECHO_TOOL = "echo tool"
LIBRARY = "the library call"

#: Similar in length to the JSON of a short read.
TEXT = "x" * 250
IDLE_PROGRAM = ("cat",)


@asynccontextmanager
async def _mcp_client(command: str, *arguments: str, **variables: str) -> AsyncIterator[Client]:
    # By default a client passes only a few environment variables, without the state directory.
    environment = {**os.environ, **variables}
    async with Client(StdioServerParameters(command=command, args=list(arguments), env=environment)) as client:
        yield client


async def _call_tool(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    content = result.structured_content
    assert isinstance(content, dict), result
    return content


@asynccontextmanager
async def _standalone() -> AsyncIterator[TimedCall]:
    # One server owns a state directory, and the daemon may own the benchmark's.
    with TemporaryDirectory() as folder:
        async with _ours("--standalone", PTYCTL_STATE_DIR=folder) as once:
            yield once


@asynccontextmanager
async def _tool_through_shim() -> AsyncIterator[TimedCall]:
    with daemon_folder() as folder:
        os.environ["PTYCTL_RUNTIME_DIR"] = str(folder)
        async with _ours() as once:
            yield once


@asynccontextmanager
async def _ours(*options: str, **variables: str) -> AsyncIterator[TimedCall]:
    program = Path(sys.executable).with_name("ptyctl")
    try:
        from ptyctl.cli import main  # noqa: F401 - the console script would fail in the server's process only
    except ImportError as error:
        raise Unavailable(str(error)) from None
    async with _mcp_client(str(program), "mcp", *options, **variables) as client:
        opened = await _call_tool(client, "ptyctl_session", {"action": "open", "protocol": "local", "command": IDLE_PROGRAM})
        read = {"session_id": opened["session_id"], "action": "read", "mode": "tail", "max_lines": 1}

        async def call() -> str:
            return str((await _call_tool(client, "ptyctl_session_io", read))["action"])

        yield timed(call, "read")


@asynccontextmanager
async def _echo() -> AsyncIterator[TimedCall]:
    async with _mcp_client(sys.executable, "-m", "tests.benchmarks.echo_server") as client:

        async def call() -> str:
            return str((await _call_tool(client, "echo", {"text": TEXT}))["text"])

        yield timed(call, TEXT)


@asynccontextmanager
async def _library() -> AsyncIterator[TimedCall]:
    async with opened_session(protocol="local", command=IDLE_PROGRAM) as session:

        async def call() -> str:
            return str((await session.read(mode="tail", max_lines=1)).action)

        yield timed(call, "read")


async def _run_standalone(plan: Plan) -> Result:
    return in_milliseconds(
        await measure([Candidate(OURS, _standalone), Candidate(ECHO_TOOL, _echo), Candidate(LIBRARY, _library)], plan)
    )


async def _run_through_shim(plan: Plan) -> Result:
    candidates = [Candidate(OURS, _tool_through_shim), Candidate(ECHO_TOOL, _echo), Candidate("standalone", _standalone)]
    return in_milliseconds(await measure(candidates, plan))


TOOL_ROWS = (
    Row(
        "tool-call",
        "a tool call over stdio",
        "ms",
        ECHO_TOOL,
        (Aim("≤", 1.2, ECHO_TOOL, minus=LIBRARY),),
        _run_standalone,
    ),
    Row(
        "tool-shim",
        "a tool call through the daemon's shim",
        "ms",
        ECHO_TOOL,
        (Aim("≤", 0.75, ECHO_TOOL),),
        _run_through_shim,
    ),
)


PYTHON_START = "python -c pass"
READY_LIMIT_MS = 60

_PROGRAM = Path(sys.executable).with_name("ptyctl")
_CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
_INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _CLIENT}).encode() + b"\n"


def _time_until_response() -> float:
    start = time.perf_counter()
    with subprocess.Popen([_PROGRAM, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shim:
        assert shim.stdin is not None
        assert shim.stdout is not None
        shim.stdin.write(_INITIALIZE)
        shim.stdin.flush()
        response = shim.stdout.readline()
        seconds = time.perf_counter() - start
        shim.stdin.close()
    assert b"serverInfo" in response
    return seconds


def _time_python_start() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - start


@asynccontextmanager
async def _shim_start() -> AsyncIterator[TimedCall]:
    with daemon_folder() as folder:
        os.environ["PTYCTL_RUNTIME_DIR"] = str(folder)
        control.start(RuntimeDir(folder))
        yield _as_timed_call(_time_until_response)


@asynccontextmanager
async def _python() -> AsyncIterator[TimedCall]:
    yield _as_timed_call(_time_python_start)


def _as_timed_call(work: Callable[[], float]) -> TimedCall:
    async def once() -> float:
        return work()

    return once


async def _run_ready(plan: Plan) -> Result:
    return in_milliseconds(await measure([Candidate(OURS, _shim_start), Candidate(PYTHON_START, _python)], plan))


READY_ROW = Row(
    "shim-ready",
    "ptyctl mcp until it answers, with the daemon up",
    "ms",
    PYTHON_START,
    (Aim("≤", READY_LIMIT_MS),),
    _run_ready,
)

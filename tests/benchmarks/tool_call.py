"""One MCP tool call over stdio: ours reads the end of an idle session's output, the other echoes as much."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from fixtures.daemons import daemon_folder

from . import ours
from .contest import OURS, Contestant, Once, Plan, Result, Unavailable, in_milliseconds, measure, timed
from .table import Aim, Row

FLOOR = "echo tool"
WORK = "the work itself"

#: About as long as the JSON of a short read.
TEXT = "x" * 250
PROGRAM = ("cat",)


@asynccontextmanager
async def _served(command: str, *arguments: str) -> AsyncIterator[Client]:
    # A client passes on only a few variables unless it is told to: the state's place would not be among them.
    async with Client(StdioServerParameters(command=command, args=list(arguments), env=dict(os.environ))) as client:
        yield client


async def _called(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    content = result.structured_content
    assert isinstance(content, dict), result
    return content


@asynccontextmanager
async def _standalone() -> AsyncIterator[Once]:
    async with _ours("--standalone") as once:
        yield once


@asynccontextmanager
async def _shim() -> AsyncIterator[Once]:
    with daemon_folder() as folder:
        os.environ["PTYCTL_RUNTIME_DIR"] = str(folder)
        async with _ours() as once:
            yield once


@asynccontextmanager
async def _ours(*options: str) -> AsyncIterator[Once]:
    program = Path(sys.executable).with_name("ptyctl")
    try:
        from ptyctl.cli import main  # noqa: F401 - the console script would fail in the server's process only
    except ImportError as error:
        raise Unavailable(str(error)) from None
    async with _served(str(program), "mcp", *options) as client:
        opened = await _called(client, "ptyctl_session", {"action": "open", "protocol": "local", "command": PROGRAM})
        read = {"session_id": opened["session_id"], "action": "read", "mode": "tail", "max_lines": 1}

        async def call() -> str:
            return str((await _called(client, "ptyctl_session_io", read))["action"])

        yield timed(call, "read")


@asynccontextmanager
async def _echo() -> AsyncIterator[Once]:
    async with _served(sys.executable, "-m", "tests.benchmarks.echo_server") as client:

        async def call() -> str:
            return str((await _called(client, "echo", {"text": TEXT}))["text"])

        yield timed(call, TEXT)


@asynccontextmanager
async def _work() -> AsyncIterator[Once]:
    async with ours.session(protocol="local", command=PROGRAM) as session:

        async def call() -> str:
            return str((await session.read(mode="tail", max_lines=1)).action)

        yield timed(call, "read")


async def _run(plan: Plan) -> Result:
    return in_milliseconds(
        await measure([Contestant(OURS, _standalone), Contestant(FLOOR, _echo), Contestant(WORK, _work)], plan)
    )


async def _run_through_shim(plan: Plan) -> Result:
    contestants = [Contestant(OURS, _shim), Contestant(FLOOR, _echo), Contestant("standalone", _standalone)]
    return in_milliseconds(await measure(contestants, plan))


ROWS = (
    Row("tool-call", "a tool call over stdio", "ms", FLOOR, (Aim("≤", 1.2, FLOOR, less=WORK),), _run),
    Row("tool-shim", "a tool call through the daemon's shim", "ms", FLOOR, (Aim("≤", 0.8, FLOOR),), _run_through_shim),
)

"""An MCP client of the pty_* and blocks_* tools on a controller with real shells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client

from fixtures.servers.programs import require_program
from ptyctl.controller.local import LocalController
from ptyctl.mcp.server import build_server
from ptyctl.mcp.toolsets import choose

#: Timeout of waits that must succeed.
PATIENCE_MS = 50_000
GUESS = str(Path(__file__).parents[2] / "fixtures" / "programs" / "guess.py")
T = TypeVar("T")
SHELLS = ["bash", "zsh", "fish"]


class Agent:
    """One conversation. `call` adds its address to a tool's fields and returns the structured content."""

    def __init__(self, client: Client, **address: Any) -> None:
        self.client = client
        self.address = address or {"conversation_id": "c1"}

    async def call(self, tool: str, **fields: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, {**self.address, **fields})
        assert not result.is_error, result
        assert result.structured_content is not None
        assert "next_cursor" not in result.structured_content
        return result.structured_content

    async def good(self, tool: str, **fields: Any) -> dict[str, Any]:
        """Make a call that must succeed."""
        reply = await self.call(tool, **fields)
        assert reply["ok"] is True, reply
        return reply

    async def run(self, cmd: str, **fields: Any) -> dict[str, Any]:
        """Run a command to its end and return its block."""
        begun = await self.good("pty_exec_block", cmd=cmd, **fields)
        await self.prompt(begun["resume_cursor"])
        return (await self.good("blocks_get", block_id=begun["block_id"]))["block"]

    async def prompt(self, cursor: int) -> dict[str, Any]:
        return await self.good("pty_wait_prompt", from_cursor=cursor, timeout_ms=PATIENCE_MS)

    async def match(self, text: str, cursor: int, **fields: Any) -> dict[str, Any]:
        return await self.good("pty_wait_for", match=text, from_cursor=cursor, **{"timeout_ms": PATIENCE_MS, **fields})

    async def text(self, block_id: str) -> str:
        return str((await self.good("blocks_read", block_id=block_id))["data"])


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    async with LocalController() as controller, Client(build_server(controller, choose("all"))) as client:
        yield client


@asynccontextmanager
async def held(context: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a context in one task, as clients require; pytest runs the halves of a fixture in two."""
    entered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def hold() -> None:
        async with context as value:
            entered.set_result(value)
            await leave.wait()

    task = asyncio.create_task(hold())
    await asyncio.wait({task, entered}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if entered.done():
            yield entered.result()
    finally:
        leave.set()
        await task


def path_of(shell: str) -> str:
    return require_program(shell, shell)

"""An agent of the demo: a real MCP client that says what it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from rich.console import Console
from rich.markup import escape

from .stage import Server

#: Longer than any call of the demo takes.
_PATIENCE_S = 60.0
#: Between two lines, when a person looks on.
_PAUSE_S = 0.25


class DemoFailed(Exception):
    """Something did not go as it should; the text says what."""


class Refused(Exception):
    """A tool answered with an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Agent:
    """`name` is its task_id. Every call is printed with what came of it."""

    def __init__(self, name: str, colour: str, client: Client, console: Console) -> None:
        self.name = name
        self.session_id = ""
        self._colour = colour
        self._client = client
        self._console = console

    async def say(self, text: str) -> None:
        """One line of the transcript; what devices print is shown as it is, never as markup."""
        self._console.print(f"[{self._colour}]{self.name:>11}[/] │ {escape(text)}")
        if self._console.is_terminal:
            await asyncio.sleep(_PAUSE_S)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Calls a tool as this task.

        Raises:
            Refused: the tool answered with an error.
        """
        if self.session_id:
            arguments = {"session_id": self.session_id, **arguments}
        result = await self._client.call_tool(tool, {**arguments, "task_id": self.name})
        payload: dict[str, Any] = result.structured_content or {}
        if result.is_error:
            raise Refused(payload["error_code"], payload["message"])
        return payload

    async def exec(self, cmd: str) -> dict[str, Any]:
        await self.say(f"exec {cmd}")
        return await self.call("ptyctl_session_exec", cmd=cmd)

    async def show(self, text: str, most: int = 6) -> None:
        """The first lines of an output, and how many there are more."""
        lines = text.rstrip("\n").split("\n")
        for line in lines[:most]:
            await self.say(f"    {line}")
        if len(lines) > most:
            await self.say(f"    … {len(lines) - most} more lines")


@asynccontextmanager
async def agent(name: str, colour: str, server: Server, console: Console, mode: str) -> AsyncIterator[Agent]:
    """A client of its own connection. `mode` is the protocol's era: "legacy" is 2025's, "auto" the newest."""
    headers = {"Authorization": f"Bearer {server.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=_PATIENCE_S) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode, read_timeout_seconds=_PATIENCE_S) as client,
    ):
        yield Agent(name, colour, client, console)

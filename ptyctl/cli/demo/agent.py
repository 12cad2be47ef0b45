"""Agents of the demo: MCP clients that print what they do, log in to a console, and watch it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from rich.console import Console
from rich.markup import escape

from ptyctl.controller.tokens import TokenFile
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.http.access import parse_host_port

#: Timeout of a call, longer than any call of the demo takes.
_CALL_TIMEOUT_S = 60.0
#: Delay after each printed line on a terminal.
_LINE_DELAY_S = 0.25
#: Characters of a line that the watcher prints.
_EXCERPT = 48

_LOGIN_OR_PROMPT = r"(?i)(?:username|login): ?$|password: ?$|[\w)][>#] ?$"
_MAX_QUESTIONS = 8


class DemoFailed(Exception):
    """A step of the demo failed."""


class ToolError(Exception):
    """A tool returned an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class DemoServer:
    """URL of the MCP server, and the file of its clients' tokens."""

    url: str
    tokens: TokenFile

    def create_token(self, name: str) -> str:
        """Return a new token for an agent, which is a principal of that name."""
        return self.tokens.create(Principal(name, Kind.AGENT, Role.OPERATOR), None)


@dataclass(frozen=True, slots=True)
class DemoTarget:
    """Device of the demo. `commands` are read-only; the output of the last one is longer than a page."""

    name: str
    host: str
    port: int
    username: str | None
    password: str | None
    enable: str | None
    commands: tuple[str, ...] = ("show version", "show interface")


def parse_target(address: str | None, username: str | None, password: str | None, enable: str | None) -> DemoTarget | None:
    """Return the device at HOST:PORT, or None for the simulated switch.

    Raises:
        ValueError: the address is invalid.
    """
    if address is None:
        return None
    found = parse_host_port(address)
    if found is None or not found[1]:
        raise ValueError(f"--telnet {address}: give HOST:PORT, as in 192.0.2.10:23")
    return DemoTarget(address, *found, username, password, enable)


class Agent:
    """An agent. `name` is its task_id, `session_id` its session once it is open. All its actions are printed."""

    def __init__(self, name: str, colour: str, client: Client, console: Console) -> None:
        self.name = name
        self.session_id = ""
        self._colour = colour
        self._client = client
        self._console = console

    async def say(self, text: str) -> None:
        """Print one line. Device output is not interpreted as markup."""
        self._console.print(f"[{self._colour}]{self.name:>11}[/] │ {escape(text)}")
        if self._console.is_terminal:
            await asyncio.sleep(_LINE_DELAY_S)

    async def open(self, **arguments: Any) -> dict[str, Any]:
        """Open a session, which later calls are for. Returns the reply."""
        reply = await self.call("ptyctl_session", action="open", **arguments)
        self.session_id = reply["session_id"]
        return reply

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool on the agent's session.

        Raises:
            ToolError: the tool returned an error.
        """
        if self.session_id:
            arguments = {"session_id": self.session_id, **arguments}
        result = await self._client.call_tool(tool, {**arguments, "task_id": self.name})
        payload: dict[str, Any] = result.structured_content or {}
        if result.is_error:
            raise ToolError(payload["error_code"], payload["message"])
        return payload

    async def exec(self, cmd: str) -> dict[str, Any]:
        await self.say(f"exec {cmd}")
        return await self.call("ptyctl_session_exec", cmd=cmd)

    async def show_output(self, text: str, max_lines: int = 6) -> None:
        """Print the first lines of an output, and the number of the others."""
        lines = text.rstrip("\n").split("\n")
        for line in lines[:max_lines]:
            await self.say(f"    {line}")
        if len(lines) > max_lines:
            await self.say(f"    … {len(lines) - max_lines} more lines")

    async def open_console(self, target: DemoTarget, *, rows: int, lock: bool) -> str:
        """Open the console of the target and return the cursor to read from."""
        await self.say(f"opens the console device_id={target.name}" + (" and takes its lock" if lock else ""))
        reply = await self.open(
            protocol="telnet",
            host=target.host,
            port=target.port,
            session_type="console",
            device_id=target.name,
            pty={"cols": 120, "rows": rows},
            **({"acquire_lock": True, "lock_ttl_ms": 30_000} if lock else {}),
        )
        return str(reply["next_cursor"])

    async def log_in(self, target: DemoTarget, cursor: str) -> None:
        """Log in, as an agent without a platform does, and enable if the target has a password for it.

        Raises:
            DemoFailed: a password is missing or wrong, or the output of the device is not recognised.
        """
        enabling = False
        answered: set[str] = set()
        for _ in range(_MAX_QUESTIONS):
            reply = await self.call(
                "ptyctl_session_io", action="read", cursor=cursor, until_regex=_LOGIN_OR_PROMPT, timeout_ms=10_000
            )
            cursor, last = reply["next_cursor"], reply["chunk"].rstrip().rpartition("\n")[2]
            if not reply["matched"]:
                raise DemoFailed(f"the device shows no login and no prompt; its last line is {last!r}")
            if last.endswith("#") or (last.endswith(">") and (enabling or target.enable is None)):
                return
            if last.endswith(">"):
                enabling = True
                await self._answer("enable", None)
                continue
            question = "username" if "password" not in last.lower() else "enable" if enabling else "password"
            if question in answered:
                raise DemoFailed(f"the device asked for the {question} again: it is wrong; give the right one")
            answered.add(question)
            await self._answer(getattr(target, question), question)

    async def _answer(self, text: str | None, question: str | None) -> None:
        if text is None:
            raise DemoFailed(f"the device asks for a {question}; give it with --{question}")
        shown = {"password": "the password, marked sensitive", "enable": "the enable password, marked sensitive"}
        await self.say(f"types {shown.get(question or '', text)}")
        await self.call("ptyctl_session_io", action="write", data=f"{text}\n", sensitive=question in shown)


@asynccontextmanager
async def connected_agent(name: str, colour: str, server: DemoServer, console: Console, mode: str) -> AsyncIterator[Agent]:
    """Connect an agent to the server. `mode` is the protocol version: "legacy" is that of 2025, "auto" the newest."""
    headers = {"Authorization": f"Bearer {server.create_token(name)}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=_CALL_TIMEOUT_S) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode, read_timeout_seconds=_CALL_TIMEOUT_S) as client,
    ):
        yield Agent(name, colour, client, console)


class OutputPrinter:
    """Reads a session by cursor, without a lock, while another agent works. `text` is the output so far."""

    def __init__(self, agent: Agent, cursor: str) -> None:
        self.text = ""
        self._agent = agent
        self._cursor = cursor
        self._progress = asyncio.Condition()

    async def watch(self) -> None:
        """Read until the session has no lock holder."""
        locked = True
        while locked:
            locked = (await self._agent.call("ptyctl_session", action="status")).get("lock_holder") is not None
            reply = await self._agent.call(
                "ptyctl_session_io", action="read", cursor=self._cursor, until_idle_ms=50, timeout_ms=1000
            )
            async with self._progress:
                self._cursor = reply["next_cursor"]
                self.text += reply["chunk"]
                self._progress.notify_all()
            await self._print(reply["chunk"])

    async def wait_for_cursor(self, cursor: int) -> None:
        """Wait until the output up to `cursor` was read."""
        async with self._progress:
            await self._progress.wait_for(lambda: int(self._cursor) >= cursor)

    async def _print(self, chunk: str) -> None:
        lines = [line.strip() for line in chunk.split("\n") if line.strip()]
        if lines:
            await self._agent.say(f"sees {len(chunk.encode())} bytes: “{lines[0][:_EXCERPT]}” … “{lines[-1][-_EXCERPT:]}”")

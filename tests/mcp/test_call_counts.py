"""How many calls, and how many bytes, an agent needs for frequent jobs with the core tools."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from fixtures.servers.programs import require_program
from ptyctl.controller.local import LocalController
from ptyctl.mcp.server import build_server
from ptyctl.mcp.toolsets import DEFAULT, choose
from tests.mcp.pty_client import PATIENCE_MS, held

EXEC, IO = "ptyctl_session_exec", "ptyctl_session_io"
PROMPT = r"[$#] ?$"


class CountingAgent:
    """A client of the core tools with one open shell. It counts the calls and the bytes of their replies after the open."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client, self._session_id = client, session_id
        self.calls = self.received = 0

    async def call(self, tool: str, **fields: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, {"session_id": self._session_id, "timeout_ms": PATIENCE_MS, **fields})
        assert not result.is_error, result
        assert result.structured_content is not None
        self.calls += 1
        self.received += len(json.dumps(result.structured_content))
        return result.structured_content


@asynccontextmanager
async def _core_tools() -> AsyncIterator[Client]:
    async with LocalController() as controller, Client(build_server(controller, choose(DEFAULT))) as client:
        yield client


@pytest.fixture
async def agent() -> AsyncIterator[CountingAgent]:
    async with held(_core_tools()) as client:
        command = ["bash", "--norc", "--noprofile"]
        opened = await client.call_tool("ptyctl_session", {"action": "open", "protocol": "local", "command": command})
        assert opened.structured_content is not None
        yield CountingAgent(client, opened.structured_content["session_id"])


async def test_vim_edit_takes_two_calls(agent: CountingAgent, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("first\nsecond\n")
    command = f"{require_program('vim', 'vim')} --clean {path}\n"
    await agent.call(IO, action="write", data=command, mode="screen", until_regex=r"(?m)^second\n~$")
    await agent.call(IO, action="write", data="jcwchanged\x1b:wq\n", mode="screen", until_regex=f"(?m){PROMPT}")
    assert (path.read_text(), agent.calls) == ("first\nchanged\n", 2)


async def test_following_a_log_until_a_pattern_takes_two_calls(agent: CountingAgent, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = f"(for n in 1 2 ready; do echo $n; done > {log} &) ; tail -n +1 -F {log} 2>/dev/null\n"
    reply = await agent.call(IO, action="write", data=command, until_regex="(?m)^ready$")
    assert (reply["matched"], "2\nready" in reply["chunk"].replace("\r", "")) == (True, True)
    assert (await agent.call(IO, action="write", key="ctrl_c", until_regex=PROMPT))["matched"]
    assert agent.calls == 2


async def test_line_of_a_large_output_takes_one_call_and_few_bytes(agent: CountingAgent) -> None:
    reply = await agent.call(EXEC, cmd="seq -f 'line %08.0f' 15000", grep="00012345")
    assert (reply["stdout"], reply["grep_count"], reply["exit_code"]) == ("line 00012345\n", 1, 0)
    assert (agent.calls, agent.received < 1_000) == (1, True)


async def test_question_that_was_not_foreseen_takes_two_calls(agent: CountingAgent) -> None:
    asked = await agent.call(EXEC, cmd="read -p 'Delete all? [y/N] ' answer; echo answer=$answer")
    assert (asked["done_reason"], asked["waiting_for_input"], asked["duration_ms"] < 10_000) == ("question", True, True)
    answered = await agent.call(IO, action="write", data="y\n", until_regex=r"answer=y")
    assert (answered["matched"], agent.calls) == (True, 2)

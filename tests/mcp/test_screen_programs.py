"""Full-screen programs driven by MCP calls: read the screen, press keys, wait for text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from fixtures.servers.programs import require_program
from tests.mcp.pty_client import PATIENCE_MS, connected, held

SIZE = {"cols": 60, "rows": 16}


class Agent:
    """A session with a shell, driven by the core tools."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self._session_id = session_id

    async def call(self, tool: str, **fields: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, {"session_id": self._session_id, **fields})
        assert not result.is_error, result
        assert result.structured_content is not None
        return result.structured_content

    async def type(self, data: str) -> None:
        await self.call("ptyctl_session_io", action="write", data=data)

    async def press(self, key: str) -> None:
        await self.call("ptyctl_session_io", action="write", key=key)

    async def screen(self, until_regex: str) -> dict[str, Any]:
        fields = {"mode": "screen", "until_regex": until_regex, "timeout_ms": PATIENCE_MS}
        shown = await self.call("ptyctl_session_io", action="read", **fields)
        assert shown["matched"], "\n".join(shown["rows"])
        return shown


def _attributes(seen: dict[str, Any], word: str) -> dict[str, Any]:
    """Return the attributes of a word's cells."""
    row, column = next((row, text.index(word)) for row, text in enumerate(seen["rows"]) if word in text)
    (run,) = (run for run in seen["attributes"][row] if run["begin"] <= column + 1 < run["end"])
    return {name: value for name, value in run.items() if name not in ("begin", "end")}


@pytest.fixture
async def agent() -> AsyncIterator[Agent]:
    async with held(connected()) as client:
        opened = await client.call_tool(
            "ptyctl_session",
            {
                "action": "open",
                "protocol": "local",
                "command": ["bash", "--norc", "--noprofile"],
                "pty": SIZE,
            },
        )
        assert opened.structured_content is not None
        yield Agent(client, opened.structured_content["session_id"])


async def test_agent_edits_file_in_vim(agent: Agent, tmp_path: Path) -> None:
    vim = require_program("vim", "vim")
    path = tmp_path / "notes.txt"
    path.write_text("first\nsecond\nthird\n")
    await agent.type(f"{vim} --clean {path}; echo left\n")
    shown = await agent.screen(r"(?m)^third\n~$")
    assert shown["alt_screen"]
    assert (shown["cursor_row"], shown["cursor_col"]) == (0, 0)
    await agent.type("jcwchanged")
    assert (await agent.screen(r"(?m)^changed$.*(?s:.*)INSERT"))["cursor_row"] == 1
    await agent.press("esc")
    await agent.type(":wq\n")
    assert not (await agent.screen(r"(?m)^left$"))["alt_screen"]
    assert path.read_text() == "first\nchanged\nthird\n"


async def test_agent_answers_dialog_menu(agent: Agent, tmp_path: Path) -> None:
    dialog = require_program("dialog", "dialog")
    chosen = tmp_path / "chosen"
    await agent.type(f"{dialog} --menu 'Choose one' 12 40 4 a Apples b Bananas c Cherries 2>{chosen}; echo code $?\n")
    await agent.screen(r"(?s)Choose one.*Cherries.*OK")
    seen = await agent.call("pty_read_screen", attributes=True)
    assert _attributes(seen, "Apples") != _attributes(seen, "Cherries") == _attributes(seen, "Bananas")  # selected
    await agent.press("down")
    await agent.press("enter")
    await agent.screen(r"(?m)^code 0\b")
    assert chosen.read_text() == "b"


async def test_agent_scrolls_and_quits_less(agent: Agent, tmp_path: Path) -> None:
    less = require_program("less", "less")
    path = tmp_path / "long.txt"
    path.write_text("".join(f"line {number}\n" for number in range(1, 500)))
    await agent.type(f"LESS= {less} {path}; echo left\n")
    shown = await agent.screen(r"^line 1\nline 2\n(?s:.*)line 15\n")
    assert shown["alt_screen"]
    await agent.type("G")
    await agent.screen(r"(?s)^line 485\n.*line 499\n\(END\)")
    await agent.type("?line 250\n")
    await agent.screen(r"^line 250\n")
    await agent.type("q")
    shown = await agent.screen(r"(?m)^left$")
    assert not shown["alt_screen"]
    assert not any("line 250" in row for row in shown["rows"])


async def test_agent_reads_deltas_status_scrollback_and_raw(agent: Agent) -> None:
    first = await agent.call("pty_read_screen_deltas")
    assert len(first["deltas"][0]["rows"]) == SIZE["rows"]
    await agent.type("printf 'one\\ntwo\\n'\n")
    await agent.screen(r"(?m)^two$")
    status = await agent.call("pty_screen_status")
    assert (status["rows"], status["cols"]) == (SIZE["rows"], SIZE["cols"])
    assert (await agent.call("pty_read_scrollback"))["lines"] == []
    assert (await agent.call("pty_read_raw", max_bytes=10))["resume_offset"] == 10

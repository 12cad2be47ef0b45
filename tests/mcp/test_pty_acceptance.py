"""The acceptance tests of the blocks, spool and cursor specification (8.1 to 8.5), as MCP calls, on each shell with marks."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.mcp.pty_client import GUESS, PATIENCE_MS, SHELLS, Agent, connected, held, path_of


@pytest.fixture(params=SHELLS)
async def agent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Agent]:
    monkeypatch.setenv("SHELL", path_of(request.param))
    async with held(connected()) as client:
        yield Agent(client)


def rows(tmp_path: Path, name: str) -> list[dict[str, object]]:
    (folder,) = (tmp_path / "state" / "sessions").iterdir()
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


async def test_8_1_cursor_semantics(agent: Agent) -> None:
    begun = await agent.good("pty_exec_block", cmd='printf "hello\\nworld\\n"')
    assert re.fullmatch(r"\d+_\d+", begun["block_id"])
    assert begun["block_id"] == f"{begun['seq']}_{begun['ts']}"
    hello = await agent.match("hello", 0)
    assert hello["matched"]
    assert hello["resume_cursor"] == hello["match_span"]["end"]
    world = await agent.match("world", hello["resume_cursor"])
    assert world["match_text"] == "world"
    await agent.prompt(begun["resume_cursor"])
    before = await agent.good("pty_status")
    missed = await agent.call("pty_wait_for", match="never printed", from_cursor=world["resume_cursor"], timeout_ms=100)
    after = await agent.good("pty_status")  # the shell may still be drawing its prompt
    assert (missed["ok"], missed["matched"], missed["error"]) == (False, False, "timeout")
    assert before["resume_cursor"] <= missed["resume_cursor"] <= after["resume_cursor"]
    output = await agent.match("hello\nworld\n", begun["resume_cursor"])
    before = await agent.good("pty_read_spool", from_cursor=begun["resume_cursor"], max_bytes=output["match_cursor"] + 1)
    assert before["data"].lstrip("\n").startswith("hello\nworld\n")  # the cursor follows the echo; fish repaints first


async def test_8_2_interactive_correct_guess(agent: Agent, tmp_path: Path) -> None:
    begun = await agent.good("pty_exec_interactive", cmd=GUESS)
    question = await agent.match("Guess a number", begun["resume_cursor"])
    status = await agent.good("pty_status")
    assert (status["mode"], status["active_session_id"]) == ("interactive", begun["session_id"])
    assert status["active_block_id"] == begun["block_id"]
    assert await agent.good("pty_send", data="7\r") == {"ok": True}
    correct = await agent.match("Correct!", question["resume_cursor"])
    prompt = await agent.prompt(correct["resume_cursor"])
    assert prompt["match_text"].startswith("__FWS_PROMPT__ ts=")
    assert prompt["extra"]["exit_code"] == 0
    status = await agent.good("pty_status")
    assert (status["mode"], "active_block_id" in status) == ("idle", False)
    (block,) = [row for row in rows(tmp_path, "blocks.jsonl") if "ts_end" in row]
    assert (block["block_id"], block["status"], block["exit_code"]) == (begun["block_id"], "completed", 0)


async def test_8_3_interactive_error_path(agent: Agent, tmp_path: Path) -> None:
    begun = await agent.good("pty_exec_interactive", cmd=GUESS)
    question = await agent.match("Guess a number", begun["resume_cursor"])
    await agent.good("pty_send", data="11\r")
    error = await agent.match("Out of range", question["resume_cursor"])
    assert (await agent.prompt(error["resume_cursor"]))["extra"]["exit_code"] == 2
    block = (await agent.good("blocks_get", block_id=begun["block_id"]))["block"]
    assert (block["status"], block["exit_code"]) == ("completed", 2)
    assert await agent.text(begun["block_id"]) == "Guess a number from 1 to 10: 11\nOut of range\n"
    await agent.good("pty_close")
    assert await agent.text(begun["block_id"])
    events = [row["type"] for row in rows(tmp_path, "events.jsonl")]
    assert (events.count("agent_block_begin"), events.count("agent_block_end")) == (1, 1)


async def test_8_4_safety_gate(agent: Agent) -> None:
    begun = await agent.good("pty_exec_interactive", cmd=GUESS)
    await agent.match("Guess a number", begun["resume_cursor"])
    refused = await agent.call("pty_exec_block", cmd="echo SHOULD_FAIL")
    assert (refused["ok"], refused["error"], refused["mode"]) == (False, "busy", "interactive")
    assert refused["active_block_id"] == begun["block_id"]
    assert "interactive mode" in refused["message"]
    assert begun["block_id"] in refused["message"]
    ended = await agent.good("pty_end_session")
    assert (ended["ended"], ended["mode"]) == ("prompt", "idle")
    assert "SHOULD_FAIL" not in (await agent.good("pty_read_spool", from_cursor=0))["data"]


async def test_8_5_prompt_sentinel_consistency(agent: Agent, tmp_path: Path) -> None:
    here = tmp_path / "a place %41 ☃"
    here.mkdir()
    before = time.time() * 1000 - 1000
    cursor = 0
    for command, code in [("echo one", 0), ("false", 1), (f"cd '{here}'", 0), ("echo two", 0), ("sh -c 'exit 3'", 3)]:
        begun = await agent.good("pty_exec_block", cmd=command)
        assert begun["resume_cursor"] >= cursor
        prompt = await agent.prompt(begun["resume_cursor"])
        cursor = prompt["resume_cursor"]
        found = re.fullmatch(r"__FWS_PROMPT__ ts=(\d+) cwd_b64=(\S*) exit=(\d+)\n", prompt["match_text"])
        assert found, prompt
        extra = prompt["extra"]
        assert (int(found[1]), int(found[3])) == (extra["ts"], extra["exit_code"])
        assert before <= extra["ts"] <= time.time() * 1000 + 1000
        assert extra["exit_code"] == code
        assert base64.b64decode(found[2]).decode() == extra["cwd"]
    assert extra["cwd"] == str(here)


async def test_interactive_expect_runs_dialogue_in_one_call(agent: Agent) -> None:
    steps = [{"expect": "Guess a number", "send": "3\n"}, {"expect": "Too low\n", "send": "7\n"}]
    done = await agent.good("pty_exec_interactive_expect", cmd=GUESS, steps=steps, timeout_ms=PATIENCE_MS)
    assert (done["exit_reason"], done["exit_code"]) == ("prompt", 0)
    assert (await agent.good("pty_status"))["mode"] == "idle"
    assert (await agent.text(done["block_id"])).endswith("Correct!\n")

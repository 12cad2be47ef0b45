"""Conversations after the end of a program, a shell or a server, and after a reset."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path

import pytest

from ptyctl.api import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from tests.controller.conversation import LEAST, PATIENCE_MS, Pty, folder_of
from tests.controller.session_calls import MakeController, copy_state

pytestmark = pytest.mark.waits

#: Says when it is deaf, and then cannot be interrupted.
DEAF = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf now'); sys.stdin.read()"


def python(code: str) -> str:
    return f"{shlex.quote(sys.executable)} -I -S -u -c {shlex.quote(code)}"


@pytest.mark.also_remote("replies of the key tools")
async def test_ctrl_d_and_enter_reach_the_program(pty: Pty) -> None:
    begun = await pty.good("pty_exec_interactive", cmd="cat; echo over")
    await pty.good("pty_send", data="line")
    await pty.good("pty_enter")
    await pty.match("line\nline\n", begun["resume_cursor"])
    await pty.good("pty_ctrl_d")
    over = await pty.match("over\n", begun["resume_cursor"])
    prompt = await pty.prompt(over["resume_cursor"])
    await pty.good("pty_ctrl_d")
    await pty.good("pty_wait_for", match_type="eof", from_cursor=prompt["resume_cursor"], timeout_ms=PATIENCE_MS)
    await pty.refused("eof", "pty_wait_for", "before the end", match="never printed", from_cursor=prompt["resume_cursor"])


async def test_ended_shell_is_restarted_at_next_command(pty: Pty) -> None:
    await pty.run("x=1")
    begun = await pty.good("pty_exec_block", cmd="printf 'in the line'; exit 3")
    await pty.good("pty_wait_for", match_type="eof", from_cursor=0, timeout_ms=PATIENCE_MS)
    assert (await pty.block(begun["block_id"]))["status"] == "completed"
    status = await pty.good("pty_status")
    assert (status["state"], status.get("mode")) == ("eof", None)
    before = await pty.end()
    again = await pty.good("pty_exec_block", cmd="echo ${x-gone}")
    assert again["resume_cursor"] > before
    assert any("exited with 3" in notice for notice in again["notices"])
    prompt = await pty.match("(?m)^__FWS_PROMPT__ .*\n", before, match_type="regex")  # a separate line
    assert prompt["match_span"]["end"] <= again["resume_cursor"]
    await pty.prompt(again["resume_cursor"])
    assert (await pty.block(again["block_id"]))["text"] == "gone\n"


@pytest.mark.also_remote("replies of end_session")
async def test_blocked_program_ends_by_force_only(pty: Pty) -> None:
    begun = await pty.good("pty_exec_interactive", cmd=python(DEAF))
    await pty.match("deaf now", begun["resume_cursor"])
    refused = await pty.refused("busy", "pty_end_session", "force", "reset the terminal")
    assert (refused["mode"], refused["active_block_id"]) == ("interactive", begun["block_id"])
    assert (await pty.good("pty_end_session", force=True))["ended"] == "forced"
    block = await pty.block(begun["block_id"])
    assert (block["status"], block["reason"], block["exit_code"]) == ("cancelled", "interrupted", 129)
    assert (await pty.good("pty_end_session"))["ended"] == "already_idle"
    assert (await pty.run("echo on"))["text"] == "on\n"


@pytest.mark.also_remote("reply of reset")
async def test_reset_replaces_blocked_shell(pty: Pty, tmp_path: Path) -> None:
    await pty.run("echo before; x=1")
    begun = await pty.good("pty_exec_interactive", cmd=python(DEAF))
    deaf = await pty.match("deaf now", begun["resume_cursor"])
    reset = await pty.good("pty_reset")
    assert (reset["incarnation"], reset["notices"]) == (2, [f"reset: {reset['notices'][0].partition(': ')[2]}"])
    assert reset["resume_cursor"] >= deaf["resume_cursor"]
    assert (await pty.good("pty_status"))["mode"] == "idle"
    block = await pty.block(begun["block_id"])
    assert (block["status"], block["reason"]) == ("cancelled", "reset")
    assert (await pty.prompt(reset["resume_cursor"]))["match_cursor"] >= reset["resume_cursor"]
    assert (await pty.run("echo ${x-gone}"))["text"] == "gone\n"
    assert "before\n" in (await pty.good("pty_read_spool", from_cursor=0))["data"]
    folder = await folder_of(pty, tmp_path)
    await pty.good("pty_close")
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [event["incarnation"] for event in events if event["type"] == "session_reset"] == [2]
    ends = [event["block"]["block_id"] for event in events if event["type"] == "agent_block_end"]
    assert len(ends) == len(set(ends)) == 3


async def test_concurrent_resets_are_serialized(pty: Pty) -> None:
    await pty.run("true")
    await asyncio.gather(*(pty.good("pty_reset") for _ in range(3)))
    assert (await pty.good("pty_reset"))["incarnation"] == 5
    assert (await pty.run("echo fine"))["text"] == "fine\n"


async def test_marks_of_earlier_incarnation_are_ignored(pty: Pty, tmp_path: Path) -> None:
    for number in range(3):
        await pty.run(f"echo {number}")
    raw = (await folder_of(pty, tmp_path)) / "output.raw"
    await pty.good("pty_reset")
    assert (await pty.run(f"cat {raw}; (exit 7)"))["exit_code"] == 7
    assert len((await pty.good("blocks_since"))["items"]) == 4


async def test_any_session_can_be_reset(pty: Pty, bash: SessionHandle) -> None:
    there = pty.at(session_id=bash.session_id)
    await there.run("x=1")
    assert (await there.good("pty_reset"))["session_id"] == bash.session_id
    assert (await there.run("echo ${x-gone}"))["text"] == "gone\n"


@pytest.mark.also_remote("reply of close")
async def test_closed_conversation_can_be_read(pty: Pty) -> None:
    block = await pty.run("echo kept")
    end = await pty.end()
    await pty.good("pty_close")
    await pty.good("pty_close")
    assert "kept\n" in (await pty.good("pty_read_spool", from_cursor=0))["data"]
    assert (await pty.block(block["block_id"]))["text"] == "kept\n"
    assert (await pty.match("kept", 0))["matched"]
    assert (await pty.good("blocks_search", query="kept"))["hits"]
    missed = await pty.refused("eof", "pty_wait_for", match="never", from_cursor=0)
    assert missed["resume_cursor"] == end
    for tool in ("pty_status", "pty_reset", "pty_expect_send"):
        await pty.refused("closed", tool, **LEAST.get(tool, {}))


async def test_closed_conversation_is_opened_again_with_notice(pty: Pty) -> None:
    first = await pty.run("echo kept; x=1")
    await pty.good("pty_close")
    begun = await pty.good("pty_exec_block", cmd="echo ${x-gone}")
    (notice,) = begun["notices"]
    assert first["session_id"] in notice
    assert "a new session began" in notice
    await pty.prompt(begun["resume_cursor"])
    again = await pty.block(begun["block_id"])
    assert (again["text"], again["session_id"] != first["session_id"]) == ("gone\n", True)
    old = pty.at(session_id=first["session_id"])
    assert (await old.block(first["block_id"]))["text"] == "kept\n"
    assert (await pty.run("echo same"))["session_id"] == again["session_id"]
    await pty.good("pty_close")
    assert (await pty.block(begun["block_id"]))["text"] == "gone\n"  # the newest one, also when it is closed


async def test_conversation_opens_new_session_after_server_end(
    pty: Pty, make_controller: MakeController, servers: dict[Controller, LocalController]
) -> None:
    block = await pty.run("echo kept; x=1")
    await servers[pty.controller].aclose()
    later = Pty(await make_controller())
    assert (await later.block(block["block_id"]))["text"] == "kept\n"
    await later.refused("closed", "pty_status")
    begun = await later.good("pty_exec_block", cmd="echo ${x-gone}")
    assert [block["session_id"] in notice for notice in begun["notices"]] == [True]
    await later.at(session_id=block["session_id"]).good("pty_read_spool", from_cursor=0)  # reading it changes nothing
    await later.prompt(begun["resume_cursor"])
    assert (await later.block(begun["block_id"]))["text"] == "gone\n"


async def test_conversation_of_killed_server_continues(pty: Pty, make_controller: MakeController, tmp_path: Path) -> None:
    block = await pty.run("echo kept")
    begun = await pty.good("pty_exec_block", cmd="sleep 60")
    shell = (await pty.good("pty_status"))["shell_id"]
    copied = tmp_path / "copied"
    copy_state(tmp_path / "state", copied)  # the files as a kill would leave them at this moment
    later = Pty(await make_controller(state_dir=copied))
    assert (await later.block(begun["block_id"]))["status"] == "cancelled"
    before = await later.end()
    assert before >= begun["resume_cursor"]
    again = await later.run("echo on")
    assert (again["text"], again["session_id"], again["seq"]) == ("on\n", shell, 3)
    assert (await later.block(block["block_id"]))["text"] == "kept\n"
    assert again["spool_begin"] > before
    await later.good("pty_reset")

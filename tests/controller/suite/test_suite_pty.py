"""pty_*: conversations, waits by cursor, dialogues, ends and resets, on real shells."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.api.pty import CREATING, PTY_REQUESTS
from ptyctl.controller import LocalController
from tests.controller.acting import MakeController, session
from tests.controller.pty_acting import PATIENCE_MS, Pty

#: Says when it is deaf, and then cannot be interrupted.
DEAF = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf now'); sys.stdin.read()"
#: The least that each tool needs.
LEAST: dict[str, dict[str, Any]] = {
    "pty_wait_for": {"match": "x", "from_cursor": 0, "timeout_ms": 0},
    "pty_wait_prompt": {"from_cursor": 0, "timeout_ms": 0},
    "pty_expect_send": {"expect": "x", "send": "y", "from_cursor": 0, "timeout_ms": 0},
    "pty_read_spool": {"from_cursor": 0},
    "pty_resize": {"cols": 80, "rows": 24},
    "blocks_get": {"block_id": "1_1"},
    "blocks_read": {"block_id": "1_1"},
    "blocks_search": {"query": "x"},
    "pty_exec_block": {"cmd": "true"},
    "pty_exec_interactive": {"cmd": "true"},
    "pty_exec_interactive_expect": {"cmd": "true", "steps": []},
    "pty_send": {"data": "x"},
}


def python(code: str) -> str:
    return f"{shlex.quote(sys.executable)} -I -S -u -c {shlex.quote(code)}"


@pytest.fixture
def pty(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> Pty:
    monkeypatch.setenv("SHELL", require_program("bash", "bash"))
    return Pty(controller)


async def folder_of(pty: Pty, state: Path) -> Path:
    return state / "state" / "sessions" / str((await pty.good("pty_status"))["shell_id"])


@pytest.mark.parametrize("tool", sorted(PTY_REQUESTS.keys() - CREATING))
async def test_an_unknown_conversation(pty: Pty, tool: str) -> None:
    await pty.refused("not_found", tool, "c1", "pty_exec", **LEAST.get(tool, {}))


@pytest.mark.parametrize("tool", sorted(PTY_REQUESTS))
async def test_an_unknown_session(pty: Pty, tool: str) -> None:
    await pty.at(session_id="nobody").refused("not_found", tool, "nobody", **LEAST.get(tool, {}))


async def test_first_uses_at_one_moment_make_one_terminal(pty: Pty) -> None:
    replies = await asyncio.gather(*(pty.call("pty_exec_block", cmd="sleep 60") for _ in range(5)))
    assert sorted(str(reply.get("error")) for reply in replies) == ["None", *["busy"] * 4]
    listed = await session(pty.controller, "list")
    assert [entry.conversation_id for entry in listed.sessions or []] == ["c1"]


async def test_each_client_of_a_conversation_has_its_own(pty: Pty) -> None:
    other = pty.at(conversation_id="c1", client_id="other")
    await pty.run("x=mine")
    assert (await other.run("echo ${x-nothing}"))["text"] == "nothing\n"
    assert (await pty.run("echo $x"))["text"] == "mine\n"


async def test_files_name_the_conversation(pty: Pty, tmp_path: Path) -> None:
    await pty.run("true")
    folder = await folder_of(pty, tmp_path)
    await pty.good("pty_close")
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["conversation_id"], meta["client_id"]) == ("c1", "default")
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert {event["conversation_id"] for event in events} == {"c1"}


async def test_any_open_session_by_its_id(pty: Pty, bash: SessionHandle) -> None:
    there = pty.at(session_id=bash.session_id)
    assert (await there.run("echo hi; (exit 3)"))["exit_code"] == 3
    assert (await bash.exec("echo again")).stdout == "again\n"
    assert len((await there.good("blocks_since"))["items"]) == 2


async def test_a_first_send_makes_the_terminal_and_a_block(pty: Pty) -> None:
    await pty.good("pty_send", data="echo typed $((1 + 1))\r")
    found = await pty.match("typed 2\n", 0)
    await pty.prompt(found["resume_cursor"])
    (block,) = (await pty.good("blocks_since"))["items"]
    assert (block["origin"], block["status"]) == ("typed", "completed")


async def test_a_directory_for_the_command(pty: Pty, tmp_path: Path) -> None:
    there = tmp_path / "it's a place"
    (there / "deeper").mkdir(parents=True)
    block = await pty.run("pwd\necho 'a  b'", cwd=str(there))
    assert (block["text"], block["cmd"], block["cwd"]) == (f"{there}\na  b\n", "pwd\necho 'a  b'", str(there))
    assert (await pty.run("pwd", cwd="deeper"))["text"] == f"{there}/deeper\n"
    for none in ("nowhere", "x" * 5000, "~nobody-has-this-name"):
        await pty.refused("invalid_argument", "pty_exec_block", "cwd", cmd="echo no", cwd=none)


@pytest.mark.parametrize(
    ("tool", "fields", "named"),
    [
        ("pty_exec_block", {"cmd": " \n"}, "cmd"),
        ("pty_wait_for", {"match": "(?=x)", "match_type": "regex", "from_cursor": 0}, "lookahead"),
        ("pty_wait_for", {"match": "x", "from_cursor": 1 << 40}, "past the end"),
        ("pty_wait_prompt", {"from_cursor": 1 << 40}, "past the end"),
        ("pty_expect_send", {"expect": "x", "send": "", "from_cursor": 1 << 40}, "past the end"),
        ("pty_read_spool", {"from_cursor": 1 << 40}, "past the end"),
        ("pty_exec_interactive_expect", {"cmd": "x", "steps": [{"expect": "", "send": "y"}]}, "steps[0].expect"),
        ("blocks_since", {"cursor": 99}, "past the end"),
        ("blocks_search", {"query": "(", "regex": True}, "query: '(' is"),
    ],
)
async def test_bad_input_is_refused_before_anything_is_typed(pty: Pty, tool: str, fields: dict[str, Any], named: str) -> None:
    await pty.run("true")
    before = await pty.end()
    await pty.refused("invalid_argument", tool, named, **fields)
    assert (await pty.end(), (await pty.good("pty_status"))["mode"]) == (before, "idle")


async def test_a_prompt_of_long_ago_does_not_wait_for_what_runs(pty: Pty) -> None:
    await pty.run("true")
    await pty.good("pty_exec_block", cmd="sleep 60")
    assert (await pty.good("pty_wait_for", match_type="prompt", from_cursor=0, timeout_ms=0))["matched"]
    late = await pty.refused("timeout", "pty_wait_prompt", from_cursor=0, timeout_ms=50)
    assert late["resume_cursor"] == await pty.end()
    await pty.good("pty_ctrl_c")
    await pty.prompt(0)


async def test_ctrl_d_enter_and_eof(pty: Pty) -> None:
    begun = await pty.good("pty_exec_interactive", cmd="cat; echo over")
    await pty.good("pty_send", data="line")
    await pty.good("pty_enter")
    await pty.match("line\nline\n", begun["resume_cursor"])
    await pty.good("pty_ctrl_d")
    over = await pty.match("over\n", begun["resume_cursor"])
    prompt = await pty.prompt(over["resume_cursor"])
    await pty.good("pty_ctrl_d")
    await pty.good("pty_wait_for", match_type="eof", from_cursor=prompt["resume_cursor"], timeout_ms=PATIENCE_MS)
    await pty.refused("eof", "pty_wait_for", "before the end", match="more", from_cursor=prompt["resume_cursor"])


async def test_a_shell_that_ended_is_started_anew(pty: Pty) -> None:
    await pty.run("x=1")
    begun = await pty.good("pty_exec_block", cmd="printf 'in the line'; exit 3")
    await pty.good("pty_wait_for", match_type="eof", from_cursor=0, timeout_ms=PATIENCE_MS)
    assert (await pty.block(begun["block_id"]))["status"] == "completed"
    before = await pty.end()
    again = await pty.good("pty_exec_block", cmd="echo ${x-gone}")
    assert again["resume_cursor"] > before
    assert any("exited with 3" in notice for notice in again["notices"])
    prompt = await pty.match("(?m)^__FWS_PROMPT__ .*\n", before, match_type="regex")  # a line of its own
    assert prompt["match_span"]["end"] <= again["resume_cursor"]
    await pty.prompt(again["resume_cursor"])
    assert (await pty.block(again["block_id"]))["text"] == "gone\n"


async def test_a_wedged_program_is_ended_by_force_only(pty: Pty) -> None:
    begun = await pty.good("pty_exec_interactive", cmd=python(DEAF))
    await pty.match("deaf now", begun["resume_cursor"])
    refused = await pty.refused("busy", "pty_end_session", "force", "pty_reset")
    assert (refused["mode"], refused["active_block_id"]) == ("interactive", begun["block_id"])
    assert (await pty.good("pty_end_session", force=True))["ended"] == "forced"
    block = await pty.block(begun["block_id"])
    assert (block["status"], block["reason"], block["exit_code"]) == ("cancelled", "interrupted", 137)
    assert (await pty.good("pty_end_session"))["ended"] == "already_idle"
    assert (await pty.run("echo on"))["text"] == "on\n"


async def test_reset_while_wedged(pty: Pty, tmp_path: Path) -> None:
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


async def test_resets_at_one_moment_come_one_after_the_other(pty: Pty) -> None:
    await pty.run("true")
    await asyncio.gather(*(pty.good("pty_reset") for _ in range(3)))
    assert (await pty.good("pty_reset"))["incarnation"] == 5
    assert (await pty.run("echo fine"))["text"] == "fine\n"


async def test_marks_of_an_old_incarnation_say_nothing(pty: Pty, tmp_path: Path) -> None:
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


async def test_a_closed_conversation_can_be_read(pty: Pty) -> None:
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
    for tool in ("pty_exec_block", "pty_send", "pty_status", "pty_reset", "pty_expect_send"):
        await pty.refused("closed", tool, **LEAST.get(tool, {}))


async def test_only_the_holder_of_the_lock_writes(pty: Pty) -> None:
    await pty.run("true")
    shell = (await pty.good("pty_status"))["shell_id"]
    await session(pty.controller, "lock", session_id=shell, task_id="holder")
    for tool in (
        "pty_exec_block",
        "pty_send",
        "pty_enter",
        "pty_ctrl_c",
        "pty_expect_send",
        "pty_reset",
        "pty_resize",
        "pty_close",
    ):
        reply = await pty.refused("locked", tool, task_id="other", **LEAST.get(tool, {}))
        assert reply["lock_holder"] == "holder"
    await pty.good("pty_read_spool", from_cursor=0, task_id="other")
    assert (await pty.run("echo mine", task_id="holder"))["text"] == "mine\n"


async def test_a_character_is_never_cut(pty: Pty) -> None:
    begun = await pty.good("pty_exec_block", cmd="printf 'a☃😀ß\\n'")
    await pty.prompt(begun["resume_cursor"])
    cursor, pieces = begun["resume_cursor"], []
    while "".join(pieces) != "a☃😀ß\n":
        reply = await pty.good("pty_read_spool", from_cursor=cursor, max_bytes=1)
        assert reply["cursor"] == cursor
        assert len(reply["data"]) == 1
        cursor = reply["resume_cursor"]
        pieces.append(reply["data"])
    assert cursor == begun["resume_cursor"] + len("a☃😀ß\n".encode())


async def test_a_step_that_never_comes(pty: Pty) -> None:
    steps = [{"expect": "name", "send": "jo\n"}, {"expect": "never", "send": "x\n", "timeout_ms": 100}]
    command = "printf 'name? '; read n; printf 'age? '; read a"
    reply = await pty.refused("timeout", "pty_exec_interactive_expect", "steps[1]", "never", cmd=command, steps=steps)
    assert (reply["exit_reason"], reply["failed_step"]) == ("step_timeout", 1)
    assert reply["screen"].splitlines()[-2:] == ["name? jo", "age?"]
    assert (await pty.good("pty_status"))["mode"] == "interactive"
    assert (await pty.good("pty_end_session"))["ended"] == "prompt"


async def test_a_step_that_fails_shows_the_screen_as_it_was_drawn(pty: Pty) -> None:
    command = "printf '\\033[2J\\033[3;3Hpick one\\033[HMENU'; read answer"
    steps = [{"expect": "never", "send": "x\n", "timeout_ms": 100}]
    reply = await pty.refused("timeout", "pty_exec_interactive_expect", "pty_send", cmd=command, steps=steps)
    assert reply["screen"] == "MENU\n\n  pick one"
    assert (await pty.good("pty_end_session"))["ended"] == "prompt"


async def test_an_answer_is_no_command_when_the_program_has_ended(pty: Pty) -> None:
    steps = [{"expect": "password", "send": "echo INTO-THE-SHELL\n"}]
    reply = await pty.refused(
        "eof", "pty_exec_interactive_expect", "steps[0]", cmd="(exit 4)", steps=steps, timeout_ms=PATIENCE_MS
    )
    assert (reply["exit_reason"], reply["exit_code"]) == ("prompt", 4)
    assert (await pty.run("echo next"))["text"] == "next\n"
    assert "INTO-THE-SHELL" not in (await pty.good("pty_read_spool", from_cursor=0))["data"]


async def test_a_dialogue_whose_shell_ends(pty: Pty) -> None:
    reply = await pty.call(
        "pty_exec_interactive_expect",
        cmd="printf '? '; exit 5",
        steps=[{"expect": "never", "send": ""}],
        timeout_ms=PATIENCE_MS,
    )
    assert (reply["error"], reply["exit_reason"], reply["failed_step"]) == ("eof", "eof", 0)


async def test_while_one_waits_others_read_and_interrupt(pty: Pty) -> None:
    begun = await pty.good("pty_exec_interactive", cmd="sleep 60")
    waiting = asyncio.create_task(
        pty.call("pty_expect_send", expect="^C", send="echo sent\n", from_cursor=begun["resume_cursor"], timeout_ms=PATIENCE_MS)
    )
    assert (await pty.good("pty_status"))["mode"] == "interactive"
    await pty.good("pty_read_spool", from_cursor=0)
    await pty.good("pty_ctrl_c")
    reply = await waiting
    assert (reply["matched"], reply["sent"]) == (True, True)
    assert (await pty.good("blocks_get", block_id=begun["block_id"]))["block"]["status"] in ("cancelled", "interactive")


async def test_a_conversation_after_its_server_has_ended(
    pty: Pty, make_controller: MakeController, servers: dict[Controller, LocalController]
) -> None:
    block = await pty.run("echo kept; x=1")
    await servers[pty.controller].aclose()
    later = Pty(await make_controller())
    assert (await later.block(block["block_id"]))["text"] == "kept\n"
    await later.refused("closed", "pty_status")
    assert (await later.run("echo ${x-gone}"))["text"] == "gone\n"
    await later.good("pty_close")
    await later.refused("closed", "pty_exec_block", cmd="true")


async def test_what_a_killed_server_left_goes_on(pty: Pty, make_controller: MakeController, tmp_path: Path) -> None:
    block = await pty.run("echo kept")
    begun = await pty.good("pty_exec_block", cmd="sleep 60")
    shell = (await pty.good("pty_status"))["shell_id"]
    copied = tmp_path / "copied"
    shutil.copytree(tmp_path / "state", copied)  # the files as a kill would leave them at this moment
    later = Pty(await make_controller(state_dir=copied))
    assert (await later.block(begun["block_id"]))["status"] == "cancelled"
    before = await later.end()
    assert before >= begun["resume_cursor"]
    again = await later.run("echo on")
    assert (again["text"], again["session_id"], again["seq"]) == ("on\n", shell, 3)
    assert (await later.block(block["block_id"]))["text"] == "kept\n"
    assert again["spool_begin"] > before
    await later.good("pty_reset")

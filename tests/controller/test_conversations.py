"""Conversations: terminals, waits by cursor, dialogues and errors, on real shells."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api.errors import NextStep
from ptyctl.api.handle import SessionHandle
from ptyctl.api.methods import PTY_REQUESTS
from ptyctl.api.pty import CREATING
from tests.controller.conversation import LEAST, PATIENCE_MS, Pty, folder_of
from tests.controller.session_calls import session


@pytest.mark.also_remote("error of each tool")
async def test_unknown_conversation_is_not_found_by_any_tool(pty: Pty) -> None:
    for tool in sorted(PTY_REQUESTS.keys() - CREATING):
        await pty.refused("not_found", tool, "c1", NextStep.OPEN_CONVERSATION, **LEAST.get(tool, {}))


@pytest.mark.also_remote("error of each tool")
async def test_unknown_session_is_not_found_by_any_tool(pty: Pty) -> None:
    for tool in sorted(PTY_REQUESTS):
        await pty.at(session_id="nobody").refused("not_found", tool, "nobody", **LEAST.get(tool, {}))


async def test_concurrent_first_uses_make_one_terminal(pty: Pty) -> None:
    replies = await asyncio.gather(*(pty.call("pty_exec_block", cmd="sleep 60") for _ in range(5)))
    assert sorted(str(reply.get("error")) for reply in replies) == ["None", *["busy"] * 4]
    listed = await session(pty.controller, "list")
    assert [entry.conversation_id for entry in listed.sessions or []] == ["c1"]


@pytest.mark.also_remote("the client of a call")
async def test_each_client_has_its_own_terminal(pty: Pty) -> None:
    other = pty.at(conversation_id="c1", client_id="other")
    await pty.run("x=mine")
    assert (await other.run("echo ${x-nothing}"))["text"] == "nothing\n"
    assert (await pty.run("echo $x"))["text"] == "mine\n"


async def test_files_contain_the_conversation_id(pty: Pty, tmp_path: Path) -> None:
    await pty.run("true")
    folder = await folder_of(pty, tmp_path)
    await pty.good("pty_close")
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["conversation_id"], meta["client_id"]) == ("c1", "default")
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert {event["conversation_id"] for event in events} == {"c1"}


@pytest.mark.also_remote("sessions of the core calls")
async def test_session_id_addresses_any_open_session(pty: Pty, bash: SessionHandle) -> None:
    there = pty.at(session_id=bash.session_id)
    assert (await there.run("echo hi; (exit 3)"))["exit_code"] == 3
    assert (await bash.exec("echo again")).stdout == "again\n"
    assert len((await there.good("blocks_since"))["items"]) == 2


async def test_first_send_opens_the_terminal_and_a_block(pty: Pty) -> None:
    await pty.good("pty_send", data="echo typed $((1 + 1))\r")
    found = await pty.match("typed 2\n", 0)
    await pty.prompt(found["resume_cursor"])
    (block,) = (await pty.good("blocks_since"))["items"]
    assert (block["origin"], block["status"]) == ("typed", "completed")


async def test_exec_runs_in_the_given_directory(pty: Pty, tmp_path: Path) -> None:
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
async def test_invalid_request_is_refused_before_typing(pty: Pty, tool: str, fields: dict[str, Any], named: str) -> None:
    await pty.run("true")
    await pty.refused("invalid_argument", tool, named, **fields)
    assert (await pty.good("pty_status"))["mode"] == "idle"
    following = await pty.good("pty_exec_block", cmd="echo clean")
    await pty.prompt(following["resume_cursor"])
    assert "notices" not in following, "text was left in the line"
    assert [block["cmd"] for block in (await pty.good("blocks_since"))["items"]] == ["true", "echo clean"]
    assert (await pty.block(following["block_id"]))["text"] == "clean\n"


async def test_earlier_prompt_matches_while_a_command_runs(pty: Pty) -> None:
    await pty.run("true")
    await pty.good("pty_exec_block", cmd="sleep 60")
    assert (await pty.good("pty_wait_for", match_type="prompt", from_cursor=0, timeout_ms=0))["matched"]
    late = await pty.refused("timeout", "pty_wait_prompt", from_cursor=0, timeout_ms=50)
    assert late["resume_cursor"] == await pty.end()
    await pty.good("pty_ctrl_c")
    await pty.prompt(0)


async def test_writes_without_the_lock_are_refused(pty: Pty) -> None:
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


async def test_read_never_splits_a_character(pty: Pty) -> None:
    begun = await pty.good("pty_exec_block", cmd="printf 'a☃😀ß\\n'")
    await pty.prompt(begun["resume_cursor"])
    cursor: int = begun["resume_cursor"]
    pieces: list[str] = []
    while "".join(pieces) != "a☃😀ß\n":
        reply = await pty.good("pty_read_spool", from_cursor=cursor, max_bytes=1)
        assert reply["cursor"] == cursor
        assert len(reply["data"]) == 1
        cursor = reply["resume_cursor"]
        pieces.append(reply["data"])
    assert cursor == begun["resume_cursor"] + len("a☃😀ß\n".encode())


async def test_unmatched_expect_step_times_out(pty: Pty) -> None:
    steps = [
        {"expect": "name? ", "send": "jo\n"},
        {"expect": "age? ", "send": ""},  # the time of the next step begins then
        {"expect": "never", "send": "x\n", "timeout_ms": 100},
    ]
    command = "printf 'name? '; read n; printf 'age? '; read a"
    reply = await pty.refused("timeout", "pty_exec_interactive_expect", "steps[2]", "never", cmd=command, steps=steps)
    assert (reply["exit_reason"], reply["failed_step"]) == ("step_timeout", 2)
    assert reply["screen"].splitlines()[-2:] == ["name? jo", "age?"]
    assert (await pty.good("pty_status"))["mode"] == "interactive"
    assert (await pty.good("pty_end_session"))["ended"] == "prompt"


@pytest.mark.also_remote("error with a reply")
async def test_failed_step_shows_the_screen(pty: Pty) -> None:
    command = "printf '\\033[2J\\033[3;3Hpick one\\033[HMENU'; read answer"
    steps = [{"expect": "MENU", "send": ""}, {"expect": "never", "send": "x\n", "timeout_ms": 100}]
    reply = await pty.refused("timeout", "pty_exec_interactive_expect", "answer the question", cmd=command, steps=steps)
    assert reply["screen"] == "MENU\n\n  pick one"
    assert (await pty.good("pty_end_session"))["ended"] == "prompt"


async def test_answer_is_not_typed_after_program_end(pty: Pty) -> None:
    steps = [{"expect": "password", "send": "echo INTO-THE-SHELL\n"}]
    reply = await pty.refused(
        "not_found", "pty_exec_interactive_expect", "steps[0]", cmd="(exit 4)", steps=steps, timeout_ms=PATIENCE_MS
    )
    assert (reply["exit_reason"], reply["exit_code"]) == ("prompt", 4)
    assert (await pty.run("echo next"))["text"] == "next\n"
    assert "INTO-THE-SHELL" not in (await pty.good("pty_read_spool", from_cursor=0))["data"]


async def test_shell_end_ends_the_dialogue(pty: Pty) -> None:
    reply = await pty.call(
        "pty_exec_interactive_expect",
        cmd="printf '? '; exit 5",
        steps=[{"expect": "never", "send": ""}],
        timeout_ms=PATIENCE_MS,
    )
    assert (reply["error"], reply.get("exit_reason"), reply.get("failed_step")) == ("eof", "eof", 0), reply


async def test_expect_send_after_the_program_has_ended_sends_nothing(pty: Pty) -> None:
    begun = await pty.good("pty_exec_block", cmd="echo 'Continue?'")
    await pty.prompt(begun["resume_cursor"])
    reply = await pty.call("pty_expect_send", expect="Continue?", send="touch SENT\n", from_cursor=0, timeout_ms=50)
    assert (reply["error"], reply["sent"]) == ("timeout", False)
    begun = await pty.good("pty_exec_interactive", cmd="read x; echo 'Continue?'")
    waiting = asyncio.create_task(
        pty.call("pty_expect_send", expect="never", send="touch SENT\n", from_cursor=0, timeout_ms=PATIENCE_MS)
    )
    await pty.good("pty_send", data="x\n")
    reply = await waiting
    assert (reply["sent"], "the program ended" in reply["message"]) == (False, True)
    assert reply["error"] == "timeout"  # not eof: the shell lives
    assert (await pty.run("echo next"))["text"] == "next\n"


@pytest.mark.also_remote("concurrent calls on one connection")
async def test_waiting_call_does_not_block_reads_and_interrupts(pty: Pty) -> None:
    begun = await pty.good("pty_exec_interactive", cmd="sh -c 'trap \"echo caught; read x; exit 130\" INT; echo ready; read y'")
    await pty.good("pty_wait_for", match="ready", from_cursor=begun["resume_cursor"], timeout_ms=PATIENCE_MS)
    waiting = asyncio.create_task(
        pty.call("pty_expect_send", expect="caught", send="sent\n", from_cursor=begun["resume_cursor"], timeout_ms=PATIENCE_MS)
    )
    assert (await pty.good("pty_status"))["mode"] == "interactive"
    await pty.good("pty_read_spool", from_cursor=0)
    await pty.good("pty_ctrl_c")
    reply = await waiting
    assert (reply["matched"], reply["sent"]) == (True, True)
    assert (await pty.good("blocks_get", block_id=begun["block_id"]))["block"]["status"] in ("cancelled", "interactive")

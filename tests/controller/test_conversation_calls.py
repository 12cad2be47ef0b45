"""Conversations with fewer calls: inline results, named keys, screen waits, and search from the newest block."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from pydantic import BaseModel

from ptyctl.api.config import ConfigRequest
from ptyctl.api.controller import Controller
from ptyctl.api.exec import ExecRequest
from ptyctl.api.io import IoRequest
from ptyctl.api.methods import METHODS
from ptyctl.api.model import Request
from ptyctl.api.session import SessionRequest
from tests.controller.conversation import Pty
from tests.controller.session_calls import PATIENCE_MS

WAIT = {"timeout_ms": PATIENCE_MS}


async def test_exec_block_with_wait_returns_output_and_exit_code(pty: Pty) -> None:
    reply = await pty.good("pty_exec_block", cmd="echo hello; (exit 3)", wait_ms=PATIENCE_MS)
    assert (reply["data"], reply["exit_code"], reply["complete"]) == ("hello\n", 3, True)
    assert (await pty.prompt(reply["resume_cursor"]))["extra"]["exit_code"] == 3  # the cursor is before the prompt
    assert (await pty.good("pty_exec_block", cmd="true", wait_ms=PATIENCE_MS))["data"] == ""


async def test_exec_block_wait_ends_at_its_time(pty: Pty) -> None:
    await pty.run("true")  # the start of the shell is not part of the time
    reply = await pty.good("pty_exec_block", cmd="echo begun; read x; echo got $x", wait_ms=3000)
    assert (reply["data"], reply["complete"]) == ("begun\n", False)
    assert "exit_code" not in reply
    await pty.good("pty_send", data="it\n")
    assert (await pty.match("got it", reply["resume_cursor"]))["matched"]


async def test_exec_block_without_wait_returns_at_once(pty: Pty) -> None:
    assert "data" not in await pty.good("pty_exec_block", cmd="sleep 0.1")


@pytest.mark.parametrize("tool", ["pty_exec_block", "pty_exec_interactive", "pty_exec_interactive_expect"])
async def test_command_after_half_typed_text_runs_alone(pty: Pty, tool: str) -> None:
    await pty.run("PS1='here$ '")
    begin = await pty.end()
    await pty.good("pty_send", data="echo HALF ")
    await pty.match("HALF", begin)
    is_dialogue = tool == "pty_exec_interactive_expect"
    reply = await pty.good(tool, cmd="echo hi", **({"steps": []} if is_dialogue else {}))
    assert "half-typed text of 10 characters" in reply["notices"][0]
    if not is_dialogue:  # which has ended
        await pty.prompt(reply["resume_cursor"])
    assert (await pty.block(reply["block_id"]))["text"] == "hi\n"


async def test_send_presses_named_keys(pty: Pty) -> None:
    begun = await pty.good("pty_exec_interactive", cmd="stty -echo -icanon; echo on; dd bs=1 count=3 2>/dev/null | od -c")
    await pty.match("on\n", begun["resume_cursor"])
    await pty.good("pty_send", key="up")
    await pty.match("033   [   A", begun["resume_cursor"])
    await pty.refused("invalid_argument", "pty_send", "unknown key", key="hyper")
    for fields in ({}, {"data": "x", "key": "up"}):
        with pytest.raises(Exception, match="exactly one of data and key"):
            await pty.call("pty_send", **fields)


async def test_read_screen_waits_for_a_pattern_and_for_silence(pty: Pty) -> None:
    await pty.good("pty_exec_block", cmd="clear; sleep 0.2; echo rea''dy; read x")
    shown = await pty.good("pty_read_screen", until_regex="(?m)^ready$", **WAIT)
    assert (shown["matched"], shown["rows"][0]) == (True, "ready")
    assert (await pty.good("pty_read_screen", until_idle_ms=30, **WAIT))["idle_reached"]
    assert (await pty.good("pty_read_screen", until_regex="never", timeout_ms=30))["timed_out"]
    assert "matched" not in await pty.good("pty_read_screen")
    await pty.refused("invalid_argument", "pty_read_screen", "until_regex", until_regex="(")


async def test_blocks_since_returns_the_last_blocks(pty: Pty) -> None:
    for number in range(4):
        await pty.run(f"echo {number}")
    reply = await pty.good("blocks_since", last=2)
    assert [block["cmd"] for block in reply["items"]] == ["echo 2", "echo 3"]
    assert (await pty.good("blocks_since", cursor=reply["resume_cursor"]))["items"] == []


@pytest.mark.parametrize("newest_first", [False, True])
async def test_search_pages_return_each_hit_once(pty: Pty, newest_first: bool) -> None:
    for _ in range(3):
        await pty.run("seq 1 21")
    whole = (await pty.good("blocks_search", query="1", limit=1000))["hits"]
    expected = [(hit["block_id"], hit["line"]) for hit in (reversed(whole) if newest_first else whole)]
    seen, at = [], dict[str, Any]()
    while True:
        page = await pty.good("blocks_search", query="1", limit=4, newest_first=newest_first, **at)
        seen += [(hit["block_id"], hit["line"]) for hit in page["hits"]]
        if not page["truncated"]:
            break
        at = {"from_cursor": page["resume_cursor"]}
    assert seen == expected
    assert len(seen) == 3 * 12


async def test_search_context_stays_within_the_block(pty: Pty) -> None:
    await pty.run("seq 1 5")
    (hit,) = (await pty.good("blocks_search", query="2", context=3))["hits"]
    assert (hit["before"], hit["text"], hit["after"]) == (["1"], "2", ["3", "4", "5"])
    assert "before" not in (await pty.good("blocks_search", query="2"))["hits"][0]


async def test_failed_dialogue_returns_only_its_own_output(pty: Pty) -> None:
    await pty.run("echo earlier output")
    steps = [{"expect": "name? ", "send": ""}, {"expect": "never", "send": "x\n", "timeout_ms": 100}]
    command = "printf 'name? '; read n"
    reply = await pty.refused("timeout", "pty_exec_interactive_expect", cmd=command, steps=steps)
    assert reply["screen"] == "name?"
    await pty.good("pty_end_session")


async def test_core_calls_address_the_conversation(controller: Controller, pty: Pty) -> None:
    address = {"conversation_id": "other"}
    reply = await controller.exec(ExecRequest.of({**address, "cmd": "echo hi", **WAIT}))
    assert (reply.stdout, reply.exit_code) == ("hi\n", 0)
    tail = await controller.io(IoRequest.of({**address, "action": "read", "mode": "tail"}))
    assert "hi\n" in (tail.chunk or "")
    assert (await controller.config(ConfigRequest.of({**address, "action": "resize", "cols": 90, "rows": 30}))).cols == 90
    status = await controller.session(SessionRequest.of({**address, "action": "status"}))
    assert (status.state, status.mode) == ("open", "idle")
    await controller.session(SessionRequest.of({**address, "action": "close"}))
    with pytest.raises(Exception, match="no terminal"):
        await controller.io(IoRequest.of({"conversation_id": "third", "action": "read"}))


#: Values for fields that are required, or that a request of the type needs.
_GIVEN: dict[str, Any] = {
    "action": "list", "cmd": "true", "steps": [], "from_cursor": 0, "expect": "x", "send": "y", "cols": 80, "rows": 24,
    "block_id": "1_1", "query": "q", "session_id": "s", "message": "m",
}  # fmt: skip
_ALSO = {
    "ptyctl_session_io": {"action": "read"},
    "ptyctl_session_config": {"action": "get"},
    "ptyctl_session": {"session_id": None},
    "ptyctl_session_exec": {"cmd": "x"},
    "pty_wait_for": {"match": "x"},
    "pty_send": {"data": "x"},
    "policy": {"action": "check", "text": "x"},
}


@pytest.mark.parametrize("name", METHODS)
def test_null_is_the_same_as_absent_in_optional_fields(name: str) -> None:
    request = METHODS[name].request
    required = {field for field, info in request.model_fields.items() if info.is_required()}
    address = {"session_id"} & set(request.model_fields) if name != "gc" else set()
    given_fields = {**{field: _GIVEN[field] for field in required | address}, **_ALSO.get(name, {})}
    given_fields = {field: value for field, value in given_fields.items() if value is not None}
    optional = sorted(set(request.model_fields) - required - set(given_fields))
    absent = request.of(given_fields)
    # Each field alone, each two, since checks compare fields, and all.
    for nulls in (*combinations(optional, 1), *combinations(optional, 2), optional):
        assert request.of({**given_fields, **dict.fromkeys(nulls)}) == absent, nulls


@pytest.mark.parametrize(
    ("request_type", "part", "fields"),
    [
        (SessionRequest, "pty", {"action": "open", "protocol": "local"}),
        (ExecRequest, "expect", {"session_id": "s", "cmd": "x"}),
    ],
)
def test_null_is_absent_in_parts_of_a_request(request_type: type[Request], part: str, fields: dict[str, Any]) -> None:
    annotation = request_type.model_fields[part].annotation
    (model,) = [each for each in getattr(annotation, "__args__", ()) if isinstance(each, type) and issubclass(each, BaseModel)]
    assert getattr(request_type.of({**fields, part: dict.fromkeys(model.model_fields)}), part) == model()


async def test_wait_prompt_does_not_match_a_continuation_prompt(pty: Pty) -> None:
    await pty.run("true")
    begin = await pty.end()
    await pty.good("pty_send", data="cat <<END\r")
    shown = await pty.match("> ", (await pty.match("<<END", begin))["resume_cursor"])
    await pty.refused("timeout", "pty_wait_prompt", from_cursor=shown["resume_cursor"], timeout_ms=300)
    await pty.good("pty_send", data="a line\rEND\r")
    await pty.prompt(shown["resume_cursor"])
    (_, block) = (await pty.good("blocks_since"))["items"]
    assert (await pty.block(block["block_id"]))["text"].endswith("a line\n")

"""Writes that wait: send and receive in one call, several patterns, a repeated key, and the screen."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api import Controller, ErrorCode, IoRequest
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, execute, read, refused, scripted_program, until_ended, write

WAIT = {"timeout_ms": PATIENCE_MS}
#: Boots after the third Space, whenever that is.
BOOT_LOADER = "stty -echo -icanon; for n in 1 2 3; do IFS= read -rn1 key; done; echo stopped; cat"


@pytest.mark.also_remote("a write whose reply has the received text")
async def test_write_until_regex_returns_what_was_received(bash: SessionHandle) -> None:
    await bash.exec("true")
    reply = await write(bash, data="echo the-$((1 + 1)); echo more\n", until_regex=r"the-2\n", **WAIT)
    assert (reply.action, reply.matched, reply.match_index) == ("write", True, None)
    assert (reply.chunk or "").endswith("the-2\n")
    assert reply.bytes_written == len("echo the-$((1 + 1)); echo more\n")
    assert (await read(bash, cursor=reply.next_cursor, until_regex="more\n", **WAIT)).matched  # continues after the match


async def test_write_until_regex_does_not_match_the_echo(open_session: Open) -> None:
    handle = await open_session(command=("sh", "-c", "echo ready; read -r line; echo got; read -r line; echo found done"))
    assert (await handle.read(until_regex="ready\n", **WAIT)).matched
    reply = await write(handle, data="done\n", until_any=["done", "got"], **WAIT)
    assert (reply.chunk, reply.match_index) == ("done\ngot", 1)
    reply = await write(handle, data="done\n", until_regex="done", **WAIT)
    assert (reply.chunk or "").endswith("found done")


@pytest.mark.parametrize("line", ["echo go; echo ready", f"echo {'x' * 200}; echo go; echo ready"], ids=["short", "wrapped"])
@pytest.mark.parametrize("shell", ["bash --norc --noediting", "bash --norc", "zsh -f", "fish --no-config", "busybox sh"])
async def test_write_until_regex_does_not_match_the_echo_of_a_line_editor(open_session: Open, shell: str, line: str) -> None:
    """zsh and fish draw the line again, and all of them wrap a long one."""
    command = shell.split()
    require_program(command[0], command[0])
    handle = await open_session(command=tuple(command), shell_integration="off")
    await handle.exec("true", timeout_ms=PATIENCE_MS)
    await read(handle, cursor="0", until_idle_ms=200, **WAIT)
    for _ in range(2):
        reply = await write(handle, data=f"{line}\n", until_regex="ready", **WAIT)
        assert (reply.chunk or "").endswith("\ngo\nready"), reply.chunk
        await read(handle, cursor=reply.next_cursor, until_idle_ms=200, **WAIT)


async def test_write_without_enter_can_wait_for_its_echo(open_session: Open) -> None:
    handle = await open_session(command=("cat",))
    assert (await write(handle, data="abc", until_regex="abc", **WAIT)).matched


@pytest.mark.also_remote("index of the match")
async def test_write_until_any_returns_index_of_leftmost_match(bash: SessionHandle) -> None:
    await bash.exec("true")
    reply = await write(bash, data="printf 'b%s\\na%s\\n' 1 2\n", until_any=["a2", "b1", "b."], **WAIT)
    assert (reply.matched, reply.match_index) == (True, 1)
    reply = await read(bash, cursor=reply.next_cursor, until_any=["x", "a2"], **WAIT)
    assert (reply.matched, reply.match_index) == (True, 1)


async def test_write_after_exec_waits_for_the_text_of_a_slow_prompt(
    bash: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell echoes the line twice if it is typed earlier; a pattern would match the second echo."""
    monkeypatch.setattr("ptyctl.session.calls.write._PROMPT_TEXT_S", PATIENCE_MS / 1000)
    await bash.exec("PS1='$(sleep 0.3)ready$ '")
    await bash.exec("true")  # ends with the prompt mark, before the prompt's text
    reply = await write(bash, data="printf 'b%s\\na%s\\n' 1 2\n", until_any=["a2", "b1", "b."], **WAIT)
    assert reply.match_index == 1
    assert re.fullmatch(r"printf .*1 2\n+b1", reply.chunk or "")


async def test_write_after_exec_without_marks_does_not_match_the_echo_after_a_slow_prompt(
    open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is sent once the prompt is shown, so that the prompt precedes its echo."""
    monkeypatch.setattr("ptyctl.session.authorization.PROMPT_WAIT_S", PATIENCE_MS / 1000)
    shell = await open_session(shell_integration="off")
    await shell.exec("PS1='$(sleep 0.3)here$ '", timeout_ms=PATIENCE_MS)
    assert (await shell.exec("true", timeout_ms=PATIENCE_MS)).done_reason == "marker"  # before the prompt's text
    reply = await write(shell, data="echo ready\n", until_regex="ready", **WAIT)
    assert re.fullmatch(r"echo ready\n+ready", reply.chunk or "")


async def test_key_after_exec_waits_until_the_shell_reads(
    bash: SessionHandle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The terminal would take a Ctrl-D that is typed earlier, and the line editor would not see it."""
    monkeypatch.setattr("ptyctl.session.authorization.PROMPT_WAIT_S", 0.0)
    os.mkfifo(tmp_path / "prompt")
    await bash.exec(f"PS1='$(cat {tmp_path / 'prompt'})$ '")  # ends with the prompt mark
    pressed = asyncio.create_task(bash.key("ctrl_d"))
    early, _ = await asyncio.wait({pressed}, timeout=0.1)
    await asyncio.to_thread((tmp_path / "prompt").write_text, "ready")
    await pressed
    await until_ended(bash)
    assert not early


@pytest.mark.parametrize("waits", [{}, {"until_regex": r"\^C", **WAIT}])
@pytest.mark.parametrize("keys", [{"key": "ctrl_c"}, {"data": "\x03"}])
async def test_interrupt_after_exec_does_not_wait_until_the_shell_reads(
    bash: SessionHandle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keys: dict[str, str], waits: dict[str, Any]
) -> None:
    for limit in ("PROMPT_WAIT_S", "SLOW_PROMPT_WAIT_S"):
        monkeypatch.setattr(f"ptyctl.session.authorization.{limit}", 3600.0)
    os.mkfifo(tmp_path / "prompt")
    await bash.exec(f"PS1='$(cat {tmp_path / 'prompt'})$ '")
    async with asyncio.timeout(60):
        await write(bash, **keys, **waits)


async def test_write_at_an_empty_prompt_needs_no_prompt_text(bash: SessionHandle) -> None:
    await bash.exec("PS1=")
    reply = await write(bash, data="echo hi\n", until_regex="hi\n", **WAIT)
    assert (reply.matched, (reply.chunk or "").endswith("\nhi\n")) == (True, True)


async def test_write_with_timeout_alone_returns_once_output_pauses(bash: SessionHandle) -> None:
    await bash.exec("true")
    reply = await write(bash, data="echo all of it\n", **WAIT)
    assert reply.idle_reached
    assert "\nall of it\n" in (reply.chunk or "")


async def test_write_without_condition_returns_at_once(bash: SessionHandle) -> None:
    reply = await write(bash, data="echo hi\n")
    assert (reply.chunk, reply.matched) == (None, None)


async def test_invalid_condition_is_refused_before_anything_is_typed(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    for fields in (
        {"until_any": ["a", "("]},
        {"until_regex": "("},
        {"input_hints": {"wait_for_regexes": ["("]}, "timeout_ms": 5},
    ):
        with refused(ErrorCode.INVALID_ARGUMENT, "not a valid pattern"):
            await write(handle, data="6f6e65\n", **fields)
    assert (await read(handle, timeout_ms=0)).buffer_end_cursor == handle.cursor


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"until_regex": "a", "until_any": ["b"]}, ["until_regex or until_any"]),
        ({"until_any": []}, ["until_any", "empty"]),
        ({"repeat_ms": 100}, ["repeat_ms", "until_regex"]),
        ({"mode": "tail"}, ["tail", "data"]),
        ({"mode": "screen", "max_bytes": 5}, ["screen", "max_bytes"]),
    ],
)
async def test_contradicting_conditions_are_refused(bash: SessionHandle, fields: dict[str, object], parts: list[str]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, *parts):
        await write(bash, data="x", **fields)


async def test_key_is_repeated_until_the_pattern_matches(open_session: Open) -> None:
    handle = await open_session(command=("bash", "-c", BOOT_LOADER))
    reply = await write(handle, key="space", repeat_ms=20, until_regex="stopped", **WAIT)
    assert reply.matched
    assert (reply.bytes_written or 0) >= 3
    end = (await read(handle, until_idle_ms=1_000, **WAIT)).next_cursor
    assert (await read(handle, cursor=end, until_idle_ms=100, **WAIT)).chunk == ""  # nothing is typed after the match


async def test_repeated_key_without_match_ends_at_the_timeout(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    reply = await write(handle, key="f1", repeat_ms=20, until_regex="never", timeout_ms=1_000)
    assert (reply.matched, reply.timed_out) == (False, True)
    assert (reply.bytes_written or 0) >= 6


async def test_base64_write_returns_text(bash: SessionHandle) -> None:
    await bash.exec("true")
    data = base64.b64encode(b"echo $((40 + 2))\n").decode()
    reply = await write(bash, data=data, encoding="base64", until_regex="(?m)^42$", **WAIT)
    assert (reply.encoding, reply.matched) == ("utf-8", True)


async def test_question_is_reported_by_the_write(bash: SessionHandle) -> None:
    reply = await write(
        bash, data="read -p 'Sure? ' x\n", until_regex=r"Sure\? $", input_hints={"wait_for_regexes": [r"\? $"]}, **WAIT
    )
    assert (reply.matched, reply.waiting_for_input) == (True, True)


async def test_read_until_regex_finds_a_match_after_64_kib(bash: SessionHandle) -> None:
    reply = await write(bash, data="seq 1 60000; echo needle-$((1 + 1))\n", until_regex=r"needle-2\n", **WAIT)
    assert reply.matched
    chunk = reply.chunk or ""
    assert len(chunk.encode()) <= 65_536
    assert chunk.endswith("60000\nneedle-2\n")
    assert reply.truncated
    assert (reply.dropped_bytes or 0) > 200_000
    assert "exceed the size of a chunk: read them with mode" in (reply.message or "")  # they are in memory


async def test_vim_edit_takes_two_calls(bash: SessionHandle, tmp_path: Path) -> None:
    vim = require_program("vim", "vim")
    path = tmp_path / "notes.txt"
    path.write_text("first\nsecond\nthird\n")
    await bash.exec("true")
    shown = await write(bash, data=f"{vim} --clean {path}\n", mode="screen", until_regex=r"(?m)^third\n~$", **WAIT)
    assert (shown.action, shown.matched, shown.alt_screen, (shown.rows or [])[0]) == ("write", True, True, "first")
    shown = await write(bash, data="jcwchanged\x1b:wq\n", mode="screen", until_regex=r"(?m)[$#] ?$", **WAIT)
    assert (shown.matched, shown.alt_screen) == (True, False)
    assert path.read_text() == "first\nchanged\nthird\n"


@pytest.mark.also_remote("a write whose reply has the screen")
async def test_screen_after_a_key_is_not_that_of_before(open_session: Open) -> None:
    program = "stty -echo -icanon; printf 'menu A'; IFS= read -rn1 key; sleep 0.1; printf '\\rmenu B'; cat"
    handle = await open_session(command=("bash", "-c", program))
    assert (await handle.screen(until_regex="menu A", **WAIT)).matched
    shown = await write(handle, key="space", mode="screen", until_regex="menu", **WAIT)
    assert (shown.matched, (shown.rows or [])[0]) == (True, "menu B")


@pytest.mark.waits
async def test_screen_without_condition_is_returned_once_it_is_still(
    bash: SessionHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.session.calls.write.RESPONSE_PAUSE_S", 2.0)  # more than a busy machine adds to the sleep
    await bash.exec("true")
    shown = await write(bash, data="clear; echo one; sleep 0.1; echo two\n", mode="screen", **WAIT)
    assert shown.idle_reached
    assert "two" in (shown.rows or [])


@pytest.mark.also_remote("conversation of a core call")
async def test_core_calls_take_a_conversation(controller: Controller) -> None:
    request = IoRequest.of(
        {"conversation_id": "c", "action": "write", "data": "echo $((6 * 7))\n", "until_regex": "42", **WAIT}
    )
    assert (await controller.io(request)).matched  # the terminal is created on first use


async def test_handle_sends_and_returns_response(bash: SessionHandle) -> None:
    await bash.exec("true")
    reply = await bash.send("echo $((6 * 7))\n", until_any=["41\n", "42\n"])
    assert (reply.matched, reply.match_index) == (True, 1)
    assert (await bash.send(key="enter", until_idle_ms=50)).idle_reached
    assert (await execute(bash, cmd="echo next")).stdout == "next\n"

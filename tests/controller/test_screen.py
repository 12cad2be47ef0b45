"""The screen: rows, deltas, earlier screens, waits, and responses to terminal queries."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from unittest.mock import ANY

import pytest

from fixtures.servers.programs import require_program
from ptyctl.api import Controller, ErrorCode
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from tests.controller.conversation import Pty
from tests.controller.session_calls import (
    BASH,
    PATIENCE_MS,
    MakeController,
    Open,
    key_log,
    read,
    refused,
    say,
    scripted_program,
    until,
)

SIZE = {"cols": 40, "rows": 5}


@pytest.fixture
async def handle(open_session: Open) -> SessionHandle:
    return await scripted_program(open_session, pty=SIZE)


def pty_of(handle: SessionHandle) -> Pty:
    return Pty(handle.controller, session_id=handle.session_id)


@pytest.mark.also_remote("reply of a screen read")
async def test_screen_read_returns_rows_and_cursor(handle: SessionHandle) -> None:
    await say(handle, b"\x1b[2J\x1b[H\x1b]2;title\x07one\x1b[3;5Hthree \x1b[1mbold\x1b[m  ")
    shown = await handle.screen(until_regex="bold", timeout_ms=PATIENCE_MS)
    assert shown.matched
    assert shown.rows == ["one", "", "    three bold", "", ""]
    assert (shown.cursor_row, shown.cursor_col, shown.title, shown.alt_screen) == (2, 16, "title", False)
    assert (shown.cols, shown.rows_count) == (40, 5)
    assert shown.next_cursor == (await handle.read(timeout_ms=0)).buffer_end_cursor


async def test_screen_read_without_condition_returns_at_once(handle: SessionHandle) -> None:
    shown = await handle.screen()
    assert (shown.matched, shown.idle_reached, shown.timed_out, shown.eof) == (False, False, False, False)
    assert shown.rows is not None
    assert shown.rows[0] == "ready"


async def test_until_regex_matches_screen_rows(handle: SessionHandle) -> None:
    await say(handle, b"\x1b[2J\x1b[Hone   \r\ntwo")
    assert (await handle.screen(until_regex="one\ntwo\n", timeout_ms=PATIENCE_MS)).matched
    assert (await handle.screen(until_regex="(?m)^two$", timeout_ms=0)).matched
    assert (await handle.screen(until_regex="ready", timeout_ms=0)).timed_out  # it was, and is no more
    with refused(ErrorCode.INVALID_ARGUMENT, "until_regex", "lookahead"):
        await handle.screen(until_regex="(?=x)")


async def test_idle_screen_ignores_bytes_without_change(open_session: Open) -> None:
    script = "printf 'drawn '; while :; do printf '\\033[1;1H'; sleep 0.01; done"
    handle = await open_session(command=("sh", "-c", script), pty=SIZE)
    assert (await handle.screen(until_regex="drawn", timeout_ms=PATIENCE_MS)).matched
    assert (await handle.screen(until_idle_ms=300, timeout_ms=PATIENCE_MS)).idle_reached
    assert (await handle.read(until_idle_ms=2_000, timeout_ms=2_500)).timed_out  # bytes come all the time


async def test_changing_screen_is_not_idle(open_session: Open) -> None:
    script = "n=0; while :; do n=$((n+1)); printf '\\r%d' $n; sleep 0.01; done"
    handle = await open_session(command=("sh", "-c", script), pty=SIZE)
    assert (await handle.screen(until_idle_ms=2_000, timeout_ms=2_500)).timed_out


@pytest.mark.parametrize("surplus", [{"cursor": "0"}, {"max_bytes": 5}, {"include_match": False}, {"encoding": "base64"}])
async def test_invalid_screen_read_is_refused(handle: SessionHandle, surplus: dict[str, object]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, 'mode "screen"', next(iter(surplus))):
        await read(handle, mode="screen", **surplus)


async def test_idle_longer_than_timeout_is_refused(handle: SessionHandle) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, "until_idle_ms 50 is larger"):
        await handle.screen(until_idle_ms=50, timeout_ms=10)


async def test_question_at_cursor_is_reported(handle: SessionHandle) -> None:
    hints = {"wait_for_regexes": [r"\[y/N\] $"]}
    await say(handle, b"\x1b[2J\x1b[HGo on? [y/N] ")
    assert (await handle.screen(until_regex="Go on", timeout_ms=PATIENCE_MS, input_hints=hints)).waiting_for_input is True
    await say(handle, b"no\r\n")
    assert (await handle.screen(until_regex="no\n", timeout_ms=PATIENCE_MS, input_hints=hints)).waiting_for_input is False


async def test_program_end_is_reported(open_session: Open) -> None:
    handle = await open_session(command=("sh", "-c", "echo last words"), pty=SIZE)
    shown = await handle.screen(until_regex="never", timeout_ms=PATIENCE_MS)
    assert (shown.eof, shown.matched) == (True, False)
    assert shown.rows is not None
    assert shown.rows[0] == "last words"
    await handle.close()
    again = await handle.screen()
    assert (again.eof, again.rows) == (True, shown.rows)


async def test_resize_changes_the_screen(handle: SessionHandle) -> None:
    await handle.resize(20, 3)
    shown = await handle.screen()
    assert (shown.cols, shown.rows_count, len(shown.rows or ())) == (20, 3, 3)


@pytest.mark.also_remote("replies of the screen tools")
async def test_screen_tools_return_the_same_screen(handle: SessionHandle) -> None:
    pty = pty_of(handle)
    await say(handle, b"\x1b[2J\x1b[H\x1b[31mred\x1b[m plain")
    await handle.screen(until_regex="plain", timeout_ms=PATIENCE_MS)
    shown = await pty.good("pty_read_screen", attributes=True)
    assert shown["rows"] == ["red plain", "", "", "", ""]
    assert (shown["cursor"], shown["cursor_visible"], shown["alt_screen"]) == ({"row": 0, "col": 9}, True, False)
    assert shown["attributes"] == [[{"begin": 0, "end": 3, "fg": "red"}], [], [], [], []]
    assert "attributes" not in await pty.good("pty_read_screen")
    status = await pty.good("pty_screen_status")
    assert status == {
        "ok": True, "cursor": 0, "title": "", "alt_screen": False, "rows": 5, "cols": 40, "position": {"row": 0, "col": 9},
    }  # fmt: skip
    raw = await pty.good("pty_read_raw")
    assert base64.b64decode(raw["data_b64"]).endswith(b"\x1b[31mred\x1b[m plain")
    assert raw["resume_offset"] == raw["raw_size"] == shown["raw_offset"]
    await pty.refused("invalid_argument", "pty_read_raw", "past the end", from_offset=raw["raw_size"] + 1)


@pytest.mark.also_remote("binary data in replies")
async def test_raw_pages_together_are_all_bytes(handle: SessionHandle) -> None:
    pty, data, offset = pty_of(handle), b"", 0
    await say(handle, b"\x1b[1mbytes \xff\xfe\x00")
    await until(lambda: _raw_holds(pty, b"\xff\xfe\x00"))
    while page := base64.b64decode((reply := await pty.good("pty_read_raw", from_offset=offset, max_bytes=7))["data_b64"]):
        assert reply["offset"] == offset
        offset, data = reply["resume_offset"], data + page
    assert data.endswith(b"\x1b[1mbytes \xff\xfe\x00")


async def _raw_holds(pty: Pty, data: bytes) -> bool:
    return data in base64.b64decode((await pty.good("pty_read_raw"))["data_b64"])


@pytest.mark.also_remote("reply of scrollback")
async def test_scrollback_returns_scrolled_lines(handle: SessionHandle) -> None:
    await say(handle, b"".join(b"line %d\r\n" % number for number in range(1, 30)))
    await handle.screen(until_regex="line 29", timeout_ms=PATIENCE_MS)
    assert (await pty_of(handle).good("pty_read_scrollback", limit=2))["lines"] == ["line 24", "line 25"]


@pytest.mark.also_remote("range of the scrollback")
async def test_scrollback_range_returns_lines_by_number_with_attributes(handle: SessionHandle) -> None:
    await say(handle, b"".join(b"\x1b[1mline\x1b[m %d\r\n" % number for number in range(1, 30)))
    await handle.screen(until_regex="line 29", timeout_ms=PATIENCE_MS)
    pty = pty_of(handle)
    newest = await pty.good("pty_read_scrollback", limit=2, attributes=True)
    assert (newest["lines"], newest["oldest_line"]) == (["line 24", "line 25"], 0)
    assert newest["attributes"] == [[{"begin": 0, "end": 4, "bold": True}]] * 2
    earlier = await pty.good("pty_read_scrollback", from_line=newest["from_line"] - 2, limit=2)
    assert (earlier["lines"], earlier["end_line"]) == (["line 22", "line 23"], newest["end_line"])
    assert (await pty.good("pty_read_scrollback", from_line=newest["end_line"]))["lines"] == []
    await pty.refused("invalid_argument", "pty_read_scrollback", from_line=newest["end_line"] + 1)


@pytest.mark.also_remote("reply of deltas")
async def test_deltas_describe_each_change(handle: SessionHandle) -> None:
    pty = pty_of(handle)
    first = await pty.good("pty_read_screen_deltas")
    assert [len(delta["rows"]) for delta in first["deltas"]] == [5]
    assert first["deltas"][0]["session_id"] == handle.session_id
    await say(handle, b"changed")
    deltas: list[dict[str, object]] = []
    cursor = first["resume_cursor"]

    async def came() -> bool:
        nonlocal cursor
        reply = await pty.good("pty_read_screen_deltas", cursor=cursor)
        assert reply["cursor"] == cursor
        cursor = reply["resume_cursor"]
        deltas.extend(reply["deltas"])
        return "changed" in json.dumps(deltas)

    await until(came)
    assert (await pty.good("pty_screen_status"))["cursor"] == cursor
    await pty.refused("invalid_argument", "pty_read_screen_deltas", "past", cursor=cursor + 1)


async def test_screen_at_an_offset_has_the_size_before_a_resize_there(handle: SessionHandle) -> None:
    pty = pty_of(handle)
    before = await pty.good("pty_read_screen")
    await handle.resize(30, 3)
    assert (await pty.good("pty_read_screen"))["cols"] == 30
    assert await pty.good("pty_read_screen", at=before["raw_offset"]) == before | {"ts": ANY}
    await say(handle, b"more")
    await handle.screen(until_regex="more", timeout_ms=PATIENCE_MS)
    assert await pty.good("pty_read_screen", at=before["raw_offset"]) == before | {"ts": ANY}


@pytest.mark.also_remote("reply with attributes")
async def test_earlier_screen_can_be_read(open_session: Open) -> None:
    handle = await open_session(command=BASH, pty=SIZE)
    pty = pty_of(handle)
    await handle.exec("PS1='$ '", timeout_ms=PATIENCE_MS)  # fits a row, with any name of the host
    first = await handle.exec("clear; echo first", timeout_ms=PATIENCE_MS)
    await handle.resize(30, 3)
    await handle.exec("clear; echo second", timeout_ms=PATIENCE_MS)
    then = await pty.good("pty_read_screen", at=first.block_id)
    assert (then["rows"][0], then["cols"], then["rows_count"]) == ("first", 40, 5)
    now = await pty.good("pty_read_screen")
    assert (now["rows"][0], now["cols"], now["rows_count"]) == ("second", 30, 3)
    assert (await pty.good("pty_read_screen", at=now["raw_offset"]))["rows"] == now["rows"]
    at_offset = await pty.good("pty_read_screen", at=then["raw_offset"])
    assert at_offset == then
    assert await pty.good("pty_read_screen", at=str(then["raw_offset"])) == then  # as some clients write numbers
    assert then["ts"] <= now["ts"]
    await pty.refused("invalid_argument", "pty_read_screen", "past the end", at=now["raw_offset"] + 1_000_000)
    await pty.refused("not_found", "pty_read_screen", "no block 9_9", at="9_9")


async def test_conversation_has_a_screen(controller: Controller) -> None:
    pty = Pty(controller)
    await pty.refused("not_found", "pty_read_screen")
    await pty.run("clear; echo hello")
    assert "hello" in (await pty.good("pty_read_screen"))["rows"]
    assert (await pty.good("pty_read_screen_deltas"))["deltas"][0]["conversation_id"] == "c1"
    await pty.good("pty_close")
    assert "hello" in (await pty.good("pty_read_screen"))["rows"]
    await pty.good("pty_read_scrollback")
    await pty.good("pty_screen_status")
    assert (await pty.good("pty_read_screen_deltas"))["deltas"]


async def test_screen_is_restored_by_the_next_server(
    make_controller: MakeController, servers: dict[Controller, LocalController], tmp_path: Path
) -> None:
    first = await make_controller(state_dir=tmp_path / "state")
    pty = Pty(first)
    await pty.run("PS1='next: '; clear; echo hello")
    seen = await pty.good("pty_read_screen", until_regex=r"hello\nnext:", timeout_ms=PATIENCE_MS)  # the prompt follows its mark
    session_id = (await pty.good("pty_status"))["shell_id"]
    await servers[first].aclose()
    second = await make_controller(state_dir=tmp_path / "state")
    again = Pty(second, session_id=session_id)
    assert (await again.good("pty_read_screen"))["rows"] == seen["rows"]
    assert (await again.good("pty_read_screen", at=seen["raw_offset"]))["rows"] == seen["rows"]


async def test_terminal_query_is_answered(open_session: Open) -> None:
    handle = await open_session(command=BASH, pty=SIZE)
    asked = await handle.exec(
        r"""clear; printf 'xy\033[6n'; IFS=';' read -rs -t 20 -d R row col; echo; echo "at ${row#*[} $col" """,
        timeout_ms=PATIENCE_MS,
    )
    assert "at 1 3" in asked.stdout
    assert asked.exit_code == 0


async def test_query_response_is_sent_once(open_session: Open) -> None:
    handle = await key_log(open_session, b"\x1b[5n", pty=SIZE)
    assert (await handle.read(until_regex="<1b5b306e>", timeout_ms=PATIENCE_MS)).matched
    for _ in range(3):
        await handle.screen()
    await pty_of(handle).good("pty_read_screen", at=1)
    await handle.write("x")
    assert (await handle.read(until_regex="<78>", timeout_ms=PATIENCE_MS)).chunk == "<78>"


async def test_fish_output_is_exact_while_queries_are_answered(open_session: Open) -> None:
    fish = require_program("fish", "fish")
    handle = await open_session(command=(fish, "--no-config"), pty=SIZE)
    for number in range(5):
        reply = await handle.exec(f"echo out {number}; false", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == (f"out {number}\n", 1)
    typed = await handle.exec("printf '%s' (commandline)", timeout_ms=PATIENCE_MS)
    assert typed.stdout.strip() == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "dash"])
async def test_late_query_response_is_not_typed_into_next_command(open_session: Open, shell: str, tmp_path: Path) -> None:
    (tmp_path / "queries").write_bytes(b"\x1b[6n\x1b[c\x1b[>q\x1b]11;?\x07")
    bare = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"], "dash": []}[shell]
    handle = await open_session(command=[require_program(shell, shell), *bare], cwd=str(tmp_path), pty=SIZE)
    for number in range(4):
        shown = await handle.exec("cat queries", timeout_ms=PATIENCE_MS)
        assert (shown.stdout, shown.exit_code) == ("", 0)
        reply = await handle.exec(f"echo out {number}", timeout_ms=PATIENCE_MS)
        assert (reply.stdout, reply.exit_code) == (f"out {number}\n", 0)

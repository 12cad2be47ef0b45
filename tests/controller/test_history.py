"""Reads of old output: window bound, end of the program, closed session, used-up quota; and input hints."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import (
    PATIENCE_MS,
    MakeController,
    Open,
    heard,
    read,
    refused,
    say,
    scripted_program,
    session,
    until,
)

WINDOW = 4096


async def with_window(make_controller: MakeController, open_session: Open, **settings: int) -> SessionHandle:
    controller = await make_controller(**{"window_bytes": WINDOW, **settings})
    return await scripted_program(open_session, on=controller)


async def everything(handle: SessionHandle, cursor: str = "0", **fields: object) -> str:
    text = ""
    while True:
        reply = await read(handle, cursor=cursor, timeout_ms=0, **fields)
        assert reply.next_cursor is not None
        assert reply.eof or int(reply.next_cursor) > int(cursor), "a reader who waits for eof would turn for ever"
        text += reply.chunk or ""
        cursor = reply.next_cursor
        if reply.eof:
            return text


@pytest.mark.also_remote("reply fields")
async def test_read_before_the_window_reports_dropped_bytes(make_controller: MakeController, open_session: Open) -> None:
    handle = await with_window(make_controller, open_session)
    text = "".join(f"{number:09d}\n" for number in range(1_000))
    await heard(handle, text.encode())
    start = len("ready\n") + len(text) - WINDOW
    for cursor in (0, 6, start - 1):
        reply = await read(handle, cursor=str(cursor), timeout_ms=0)
        assert (reply.truncated, reply.dropped_bytes) == (True, start - cursor)
        assert reply.chunk == text[-WINDOW:]
        assert reply.next_cursor == reply.buffer_end_cursor
        assert (reply.buffer_start_cursor, reply.buffered_bytes, reply.buffer_limit_bytes) == (str(start), WINDOW, WINDOW)
    for cursor in (start, start + 10):
        reply = await read(handle, cursor=str(cursor), timeout_ms=0)
        assert (reply.truncated, reply.dropped_bytes) == (False, 0)
    reply = await read(handle, mode="tail")
    assert reply.chunk == text[-WINDOW:]


async def test_waiting_read_reports_bytes_dropped_meanwhile(make_controller: MakeController, open_session: Open) -> None:
    handle = await with_window(make_controller, open_session)
    fields = {"until_regex": "the end", "timeout_ms": PATIENCE_MS, "max_bytes": 1_000_000}
    waiting = asyncio.create_task(read(handle, cursor=handle.cursor, **fields))
    await asyncio.sleep(0)
    await say(handle, b"x" * 50_000 + b"the end")
    reply = await waiting
    assert reply.matched
    assert reply.next_cursor == str(6 + 50_007)
    assert (reply.truncated, reply.dropped_bytes) == (True, 50_007 - WINDOW)
    assert reply.chunk == "x" * (WINDOW - 7) + "the end"


async def test_window_never_begins_inside_a_character(make_controller: MakeController, open_session: Open) -> None:
    handle = await with_window(make_controller, open_session)
    cursor = await heard(handle, "€".encode() * 2_000)
    reply = await read(handle, cursor=cursor, timeout_ms=0)
    assert reply.chunk == "€" * (WINDOW // 3)
    assert reply.dropped_bytes == 6_000 - WINDOW // 3 * 3
    assert reply.buffered_bytes == WINDOW


async def test_reads_after_program_end_return_eof(open_session: Open) -> None:
    handle = await open_session(command=("sh", "-c", "printf 'all of it'"))
    waiting = await read(handle, cursor="0", until_regex="never", timeout_ms=PATIENCE_MS)
    assert (waiting.chunk, waiting.eof, waiting.matched, waiting.timed_out) == ("all of it", True, False, False)
    assert (await handle.status()).state == "eof"
    reply = await read(handle, cursor="0", timeout_ms=PATIENCE_MS, max_bytes=3)
    assert (reply.chunk, reply.eof) == ("all", False)  # there is more to read before the end
    reply = await read(handle, cursor="0", until_regex="of", timeout_ms=PATIENCE_MS)
    assert (reply.matched, reply.eof, reply.chunk) == (True, False, "all of")
    for fields in ({}, {"until_idle_ms": 5_000}, {"until_regex": "x"}):
        reply = await read(handle, timeout_ms=PATIENCE_MS, **fields)
        assert (reply.chunk, reply.eof) == ("", True)


async def test_final_carriage_return_becomes_newline(open_session: Open) -> None:
    handle = await open_session(command=("sh", "-c", r"printf 'a\r'"))
    assert (await read(handle, cursor="0", until_regex="never", timeout_ms=PATIENCE_MS)).chunk == "a\n"


@pytest.mark.also_remote("closed session")
async def test_closed_session_history_can_be_read(make_controller: MakeController, open_session: Open) -> None:
    handle = await with_window(make_controller, open_session)
    text = "".join(f"{number} €\n" for number in range(1_000))
    await heard(handle, text.encode())
    before = await read(handle, cursor="0", timeout_ms=0)
    await handle.close()
    after = await read(handle, cursor="0", timeout_ms=0)
    assert after.eof is True
    assert after.model_copy(update={"eof": False}) == before
    tail = await read(handle, mode="tail", max_lines=2)
    assert (tail.chunk, tail.eof) == ("998 €\n999 €\n", True)
    found = await read(handle, cursor="0", until_regex="(?m)^990 .$", timeout_ms=0)
    assert found.matched
    assert (found.chunk or "").endswith("\n990 €")
    assert (await everything(handle, max_bytes=100)).endswith(text[-1_000:])
    with refused(ErrorCode.INVALID_ARGUMENT, "past the end"):
        await read(handle, cursor="10000000", timeout_ms=0)


@pytest.mark.also_remote("reply of a waiting call")
async def test_close_ends_a_waiting_read(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    waiting = asyncio.create_task(read(handle, until_regex="never", timeout_ms=PATIENCE_MS))
    await asyncio.sleep(0)
    await handle.close()
    reply = await waiting
    assert (reply.chunk, reply.eof, reply.matched) == ("", True, False)


@pytest.mark.also_remote("reply fields")
async def test_used_up_quota_is_reported(make_controller: MakeController, open_session: Open) -> None:
    handle = await with_window(make_controller, open_session, quota_bytes=64 * 1024)
    head, middle, tail = b"h" * 30_000, b"m" * 200_000, b"t" * 1_000
    cursor = await heard(handle, head)
    await heard(handle, middle)
    await heard(handle, tail)
    end = 6 + len(head) + len(middle) + len(tail)
    reply = await read(handle, cursor=cursor, timeout_ms=0)  # the session continues, and cursors keep counting
    assert (reply.next_cursor, reply.truncated, reply.dropped_bytes) == (str(end), True, end - WINDOW - int(cursor))
    assert any("gap" in notice for notice in (await read(handle, timeout_ms=0, task_id="newcomer")).notices or [])
    (entry,) = (await session(handle.controller, "list")).sessions or []
    assert entry.state == "open"
    assert entry.spool_size == end
    folder = Path(os.environ["PTYCTL_STATE_DIR"]) / "sessions" / handle.session_id
    # the quota ends the storage of output; what is typed is always recorded
    assert entry.disk_bytes - (folder / "input.jsonl").stat().st_size < 3 * 64 * 1024

    async def told() -> bool:
        return '"kind":"gap"' in (folder / "timeline.jsonl").read_text()

    await until(told)
    assert (folder / "output.raw").stat().st_size <= 64 * 1024


async def test_closed_session_reports_bytes_lost_to_quota(make_controller: MakeController, open_session: Open) -> None:
    handle = await with_window(make_controller, open_session, quota_bytes=64 * 1024, window_bytes=100_000)
    await heard(handle, b"k" * 30_000)
    await heard(handle, b"m" * 60_000)
    await handle.close()
    kept = 0
    dropped = 0
    cursor = "0"
    while True:
        reply = await read(handle, cursor=cursor, timeout_ms=0)
        kept += len(reply.chunk or "")
        dropped += reply.dropped_bytes or 0
        assert reply.truncated == (reply.dropped_bytes != 0)
        cursor = reply.next_cursor or ""
        if reply.eof:
            break
    assert kept + dropped == 6 + 90_000
    assert kept >= 24_000  # the raw output and other files count too
    assert dropped > 0
    assert (await read(handle, mode="tail")).eof


async def test_exec_past_the_quota_reports_missing_output(make_controller: MakeController, open_session: Open) -> None:
    controller = await make_controller(window_bytes=65_536, quota_bytes=64 * 1024)
    bash = await open_session(on=controller)
    reply = await bash.exec("echo begun; seq 1 200000; echo ended", timeout_ms=PATIENCE_MS)
    assert reply.exit_code == 0
    assert reply.stdout.startswith("begun\n1\n2\n")
    assert reply.stdout.endswith("200000\nended\n")
    assert reply.output_truncated
    assert (reply.omitted_bytes or 0) > 1_000_000
    assert (await bash.exec("echo after")).stdout == "after\n"


@pytest.mark.parametrize(
    ("said", "waiting"),
    [
        (b"Password: ", True),
        (b"Enter password: \x1b[0m", True),
        (b"Password: \r\nLast login today\r\n$ ", False),
        (b"nothing of the kind", False),
        (b"", False),
    ],
)
async def test_waiting_for_input_is_detected(open_session: Open, said: bytes, waiting: bool) -> None:
    handle = await scripted_program(open_session)
    hints = {"wait_for_regexes": [r"(?i)password:\s*", r"\[y/n\]"]}
    await heard(handle, said, said.replace(b"\x1b[0m", b"").replace(b"\r", b""))
    reply = await handle.read(until_idle_ms=200, timeout_ms=PATIENCE_MS, input_hints=hints)
    assert reply.waiting_for_input is waiting
    assert (await read(handle, mode="tail", input_hints=hints)).waiting_for_input is waiting


async def test_waiting_for_input_is_absent_without_hints(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    await say(handle, b"Password: ")
    assert (await handle.read(until_idle_ms=100, timeout_ms=PATIENCE_MS)).waiting_for_input is None

"""Reads by cursor and of the tail, in whole characters."""

from __future__ import annotations

import asyncio
import base64
import time

import pytest

from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, heard, read, refused, say, scripted_program

BYTES_OF_A_CHARACTER = "€".encode()


@pytest.mark.also_remote("every field of a reply")
async def test_read_reply_has_all_fields(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, b"hello\r\n", b"hello\n")
    assert cursor == "6"
    reply = await read(handle, cursor=cursor, timeout_ms=0)
    assert reply.payload() == {
        "action": "read",
        "chunk": "hello\n",
        "encoding": "utf-8",
        "next_cursor": "12",
        "buffer_start_cursor": "0",
        "buffer_end_cursor": "12",
        "matched": False,
        "idle_reached": False,
        "timed_out": False,
        "eof": False,
        "truncated": False,
        "dropped_bytes": 0,
        "buffered_bytes": 12,
        "buffer_limit_bytes": 2 * 1024 * 1024,
    }


async def test_read_without_cursor_starts_at_the_end(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    reply = await read(handle, timeout_ms=50)
    assert (reply.chunk, reply.timed_out, reply.next_cursor) == ("", True, "6")
    waiting = asyncio.create_task(read(handle, timeout_ms=PATIENCE_MS))
    await asyncio.sleep(0)
    await say(handle, b"new")
    reply = await waiting
    assert reply.chunk
    assert "new".startswith(reply.chunk)
    assert not reply.timed_out


async def test_read_without_condition_returns_available_output(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, b"x" * 100)
    begun = time.monotonic()
    assert (await read(handle, cursor=cursor, timeout_ms=PATIENCE_MS)).chunk == "x" * 100
    assert time.monotonic() - begun < PATIENCE_MS / 2000


@pytest.mark.also_remote("characters of every length")
async def test_consecutive_reads_return_everything(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    text = "".join(f"{number} é€😀\n" for number in range(3_000))
    cursor = await heard(handle, text.encode())
    seen = ""
    while (reply := await read(handle, cursor=cursor, timeout_ms=0, max_bytes=777)).chunk:
        assert len(reply.chunk.encode()) <= 777
        assert int(reply.next_cursor or 0) == int(cursor) + len(reply.chunk.encode())
        seen += reply.chunk
        cursor = reply.next_cursor or ""
    assert seen == text
    assert reply.timed_out


async def test_zero_timeout_never_waits(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    for fields in ({}, {"until_regex": "never"}):
        begun = time.monotonic()
        reply = await handle.read(timeout_ms=0, **fields)
        assert (reply.chunk, reply.timed_out, reply.matched) == ("", True, False)
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize("max_bytes", [1, 2, 3, 4])
async def test_chunk_never_ends_inside_a_character(open_session: Open, max_bytes: int) -> None:
    handle = await scripted_program(open_session)
    text = "a€b😀é"
    cursor = await heard(handle, text.encode())
    chunks = []
    while (reply := await read(handle, cursor=cursor, max_bytes=max_bytes, timeout_ms=0)).chunk:
        chunks.append(reply.chunk)
        cursor = reply.next_cursor or ""
    assert (
        "".join(chunks) == text
    )  # a character larger than max_bytes is returned, since the reader could not advance otherwise


@pytest.fixture
def _patient_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for the rest of a character than a busy machine delays it."""
    monkeypatch.setattr("ptyctl.session.calls.read.INCOMPLETE_CHARACTER_S", PATIENCE_MS / 1000)


@pytest.mark.usefixtures("_patient_characters")
async def test_incomplete_character_is_awaited(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    waiting = asyncio.create_task(read(handle, cursor=handle.cursor, timeout_ms=PATIENCE_MS))
    await say(handle, BYTES_OF_A_CHARACTER[:1], BYTES_OF_A_CHARACTER[1:])
    assert (await waiting).chunk == "€"


@pytest.mark.usefixtures("_patient_characters")
async def test_incomplete_character_is_left_for_the_next_read(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    await say(handle, b"price: " + BYTES_OF_A_CHARACTER[:2])
    first = await handle.read(timeout_ms=PATIENCE_MS)
    assert first.chunk == "price: "
    await say(handle, BYTES_OF_A_CHARACTER[2:])
    assert (await handle.read(timeout_ms=PATIENCE_MS)).chunk == "€"


async def test_stale_incomplete_character_is_replaced(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, b"x" + BYTES_OF_A_CHARACTER[:2])
    reply = await read(handle, cursor=cursor, until_idle_ms=300, timeout_ms=PATIENCE_MS)
    assert (reply.chunk, reply.next_cursor) == ("x\ufffd", str(int(cursor) + 3))
    begun = time.monotonic()
    reply = await read(handle, cursor=str(int(cursor) + 1), timeout_ms=PATIENCE_MS)
    assert reply.chunk == "\ufffd"
    assert time.monotonic() - begun < PATIENCE_MS / 2000


@pytest.mark.also_remote("binary data in a reply")
async def test_invalid_utf_8_is_replaced(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    raw = b"a\xff\xfe\x80b\xc3(\xe2\x28\xa1z"
    cursor = await heard(handle, raw)
    assert (await read(handle, cursor=cursor, timeout_ms=0)).chunk == raw.decode("utf-8", "replace")
    reply = await read(handle, cursor=cursor, timeout_ms=0, encoding="base64")
    assert (base64.b64decode(reply.chunk or ""), reply.encoding) == (raw, "base64")


@pytest.mark.parametrize(
    ("cursor", "part"),
    [*((cursor, "not a number") for cursor in ("ten", "", "1.5", "٣", "-")), ("-1", "negative"), ("7", "past the end")],
)
async def test_invalid_cursor_is_refused(open_session: Open, cursor: str, part: str) -> None:
    handle = await scripted_program(open_session)
    with refused(ErrorCode.INVALID_ARGUMENT, "cursor", part):
        await read(handle, cursor=cursor, timeout_ms=0)
    assert (await read(handle, cursor="6", timeout_ms=0)).chunk == ""


@pytest.mark.also_remote("reply of a tail")
async def test_tail_returns_the_last_lines(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    await heard(handle, b"one\ntwo\nthree\n$ ")

    async def tail(**fields: object) -> str | None:
        reply = await read(handle, mode="tail", **fields)
        assert (reply.timed_out, reply.matched, reply.idle_reached, reply.truncated) == (False, False, False, False)
        assert reply.next_cursor == reply.buffer_end_cursor
        return reply.chunk

    assert await tail() == "ready\none\ntwo\nthree\n$ "
    assert await tail(max_lines=1) == "$ "
    assert await tail(max_lines=3) == "two\nthree\n$ "
    assert await tail(max_lines=1_000) == "ready\none\ntwo\nthree\n$ "
    assert await tail(max_bytes=8) == "three\n$ "
    assert await tail(max_lines=2, max_bytes=4) == "e\n$ "
    await heard(handle, b"\n")
    assert await tail(max_lines=2) == "three\n$ \n"
    await heard(handle, "€".encode())
    assert await tail(max_bytes=2) == ""  # what does not begin in there is not shown in part


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"mode": "tail", "cursor": "0"}, ["tail", "cursor"]),
        ({"max_lines": 5}, ["max_lines", "tail"]),
        ({"mode": "head"}, ["mode"]),
        ({"data": "x"}, ["read", "data"]),
        ({"key": "enter"}, ["key"]),
        ({"timeout_ms": -1}, ["timeout_ms"]),
        ({"max_bytes": 0}, ["max_bytes"]),
        ({"until_idle_ms": 0}, ["until_idle_ms"]),
        ({"cursor": 5}, ["cursor"]),
        ({"encoding": "latin-1"}, ["encoding"]),
        ({"input_hints": {"wait_for_regexes": ["("]}}, ["input_hints.wait_for_regexes[0]"]),
    ],
)
async def test_invalid_read_request_is_refused(bash: SessionHandle, fields: dict[str, object], parts: list[str]) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, *parts):
        await read(bash, **{"timeout_ms": 0, **fields})


async def test_tail_does_not_wait(open_session: Open) -> None:
    handle = await open_session(command=["cat"])
    for waited in ({"until_regex": "x"}, {"until_idle_ms": 5}, {"cursor": "0"}, {"include_match": False}):
        with pytest.raises(PtyctlError, match="snapshot"):
            await handle.read(mode="tail", **waited)

"""Conditions that end a read: a match, silence, a number of bytes."""

from __future__ import annotations

import asyncio
import time

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, heard, read, refused, say, scripted_program


@pytest.mark.also_remote("reply fields")
async def test_read_until_regex_ends_with_the_match(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    waiting = asyncio.create_task(read(handle, cursor=handle.cursor, until_regex=r"b+\d", timeout_ms=PATIENCE_MS))
    await say(handle, b"aaa", b"bb", b"b7 and more")
    reply = await waiting
    assert (reply.chunk, reply.matched, reply.timed_out, reply.idle_reached) == ("aaabbb7", True, False, False)
    assert reply.next_cursor == str(6 + 7)
    assert (await read(handle, cursor=reply.next_cursor, until_regex="more", timeout_ms=PATIENCE_MS)).chunk == " and more"


async def test_include_match_false_excludes_the_match(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, b"before STOP after")
    reply = await read(handle, cursor=cursor, until_regex="STOP", include_match=False, timeout_ms=PATIENCE_MS)
    assert (reply.chunk, reply.matched, reply.next_cursor) == ("before ", True, str(int(cursor) + len("before STOP")))


async def test_anchors_match_cursor_and_end(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, b"first\nsecond\nthird")

    async def matches(pattern: str, at: int = 0) -> bool:
        reply = await read(handle, cursor=str(int(cursor) + at), until_regex=pattern, timeout_ms=0)
        return reply.matched is True

    assert await matches("^first")
    assert not await matches("^second")
    assert await matches("(?m)^second$")
    assert await matches("^cond", at=8)
    assert await matches("third$")
    assert not await matches("second$")
    assert not await matches("first.second")
    assert await matches("(?s)first.second")


async def test_patterns_match_utf_8(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, "Größe: 5 €!".encode())
    assert (await read(handle, cursor=cursor, until_regex="öß", timeout_ms=0)).chunk == "Größ"
    assert (await read(handle, cursor=cursor, until_regex="5 .!", timeout_ms=0)).matched
    assert (await read(handle, cursor=cursor, until_regex=r"(?i)GRÖSSE|GRÖßE", timeout_ms=0)).matched


async def test_split_match_is_found(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    waiting = asyncio.create_task(read(handle, cursor=handle.cursor, until_regex="login: €$", timeout_ms=PATIENCE_MS))
    for byte in b"noise login: lo" + b"\x1b[1m" + "gin: €".encode():
        await say(handle, bytes([byte]))
    assert (await waiting).chunk == "noise login: login: €"


async def test_text_before_the_cursor_is_not_matched(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, b"needle")
    reply = await read(handle, cursor=str(int(cursor) + 1), until_regex="needle", timeout_ms=50)
    assert (reply.matched, reply.timed_out, reply.chunk) == (False, True, "eedle")


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("(", ["until_regex", "'('"]),
        ("a(?=b)", ["lookahead"]),
        ("a(?!b)", ["lookahead"]),
        ("(?<=a)b", ["lookbehind"]),
        ("(?<!a)b", ["lookbehind"]),
        (r"(a)\1", ["backreferences"]),
        ("(?>a)", ["atomic"]),
        ("(?P=name)", ["backreferences"]),
        ("a**", ["until_regex"]),
        ("[z-a]", ["until_regex"]),
        ("x{2000}", ["until_regex"]),
    ],
)
async def test_invalid_pattern_is_refused(open_session: Open, pattern: str, parts: list[str]) -> None:
    handle = await scripted_program(open_session)
    with refused(ErrorCode.INVALID_ARGUMENT, *parts):
        await read(handle, until_regex=pattern)


@pytest.mark.also_remote("concurrent calls")
async def test_pathological_pattern_does_not_block_other_calls(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, b"a" * 200_000)
    begun = time.monotonic()
    reply = await read(handle, cursor=cursor, until_regex="(a+)+b|(a|aa)+c", timeout_ms=0, max_bytes=300_000)
    assert not reply.matched
    assert time.monotonic() - begun < PATIENCE_MS / 1000


async def test_read_until_idle_returns_after_silence(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    waiting = asyncio.create_task(read(handle, cursor=handle.cursor, until_idle_ms=1_500, timeout_ms=PATIENCE_MS))
    for _ in range(5):
        await say(handle, b"tick ")
        await asyncio.sleep(0.1)
    reply = await waiting
    assert (reply.chunk, reply.idle_reached, reply.matched, reply.timed_out) == ("tick " * 5, True, False, False)


async def test_idle_time_starts_with_the_call(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    await asyncio.sleep(0.3)
    begun = time.monotonic()
    reply = await read(handle, until_idle_ms=200, timeout_ms=PATIENCE_MS)
    assert (reply.chunk, reply.idle_reached) == ("", True)
    assert time.monotonic() - begun >= 0.19


async def test_match_takes_precedence_over_idle(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, b"here it is")
    reply = await read(handle, cursor=cursor, until_regex="it", until_idle_ms=1, timeout_ms=PATIENCE_MS)
    assert (reply.matched, reply.idle_reached, reply.chunk) == (True, False, "here it")


async def test_idle_longer_than_timeout_is_refused(bash: SessionHandle) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, "until_idle_ms", "500", "timeout_ms", "400"):
        await read(bash, until_idle_ms=500, timeout_ms=400)
    with refused(ErrorCode.INVALID_ARGUMENT, "until_idle_ms"):
        await read(bash, until_idle_ms=56_000)


async def test_max_bytes_ends_a_read(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, b"0123456789")
    for fields in ({"until_idle_ms": 5_000}, {"until_regex": "9"}, {}):
        reply = await read(handle, cursor=cursor, max_bytes=4, timeout_ms=PATIENCE_MS, **fields)
        assert (reply.chunk, reply.matched, reply.timed_out, reply.next_cursor) == ("0123", False, False, str(int(cursor) + 4))


async def test_match_within_max_bytes_is_reported(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    cursor = await heard(handle, b"0123456789")
    assert (await read(handle, cursor=cursor, max_bytes=4, until_regex="3", timeout_ms=0)).matched
    assert not (await read(handle, cursor=cursor, max_bytes=4, until_regex="4", timeout_ms=0)).matched

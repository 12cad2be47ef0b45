"""The console log: lines with their times, and messages of people."""

from __future__ import annotations

import time

import pytest

from ptyctl.api import Controller, ErrorCode, LogReply, LogRequest, NotifyRequest
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import PATIENCE_MS, Open, refused, scripted_program, session


async def log(handle: SessionHandle, **fields: object) -> LogReply:
    return await handle.controller.log(LogRequest.of({"session_id": handle.session_id, **fields}))


async def say(handle: SessionHandle, *pieces: bytes) -> None:
    for piece in pieces:
        await handle.write(piece.hex() + "\n")
    await handle.write(b"#".hex() + "\n")
    while not (reply := await handle.read(until_regex="#$", timeout_ms=PATIENCE_MS)).matched:
        assert not reply.timed_out  # a long output comes in parts


def told(reply: LogReply) -> list[tuple[str, str]]:
    return [(line.kind, line.text) for line in reply.lines]


@pytest.mark.also_remote("lines of a log")
async def test_lines_are_rendered_as_on_a_terminal(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    before = int(time.time() * 1000)
    await say(handle, b"\x1b[31mred\x1b[0m\r\n", b"10%\r20%\r\n", "grün\r\n".encode(), b"abc\bd")
    reply = await log(handle)
    assert told(reply) == [("line", "ready"), ("line", "red"), ("line", "20%"), ("line", "grün"), ("open", "abd#")]
    assert reply.complete
    times = [line.ts for line in reply.lines]
    assert times == sorted(times)
    assert before - 50 <= times[1] <= int(time.time() * 1000)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_pages_together_are_the_whole_log(open_session: Open, limit: int) -> None:
    handle = await scripted_program(open_session)
    await say(handle, b"".join(b"line %d\r\n" % number for number in range(9)))
    whole = await log(handle)
    lines, at = [], 0
    while True:
        page = await log(handle, from_offset=at, limit=limit)
        lines += page.lines
        at = page.resume_offset
        if page.complete:
            break
    assert lines == whole.lines
    assert len(lines) == 11


async def test_unfinished_line_is_repeated_on_the_next_page(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    await say(handle, b"one\r\ntw")
    first = await log(handle)
    assert told(first)[-1] == ("open", "tw#")
    await say(handle, b"o\r\n")
    assert told(await log(handle, from_offset=first.resume_offset)) == [("line", "tw#o"), ("open", "#")]


@pytest.mark.also_remote("lines of every kind")
async def test_incarnation_is_listed_once_in_its_place(open_session: Open) -> None:
    fields = {"session_type": "console", "device_id": "rack-1"}
    one = await open_session(command=("sh", "-c", "echo first"), **fields)
    await one.read(until_regex="never", timeout_ms=PATIENCE_MS)
    first = await log(one)
    await open_session(command=("sh", "-c", "echo second"), **fields)
    await one.read(until_regex="second\n", timeout_ms=PATIENCE_MS)
    expected = [("line", "first"), ("incarnation", "incarnation 2 begins"), ("line", "second")]
    assert told(await log(one)) == expected
    assert told(first) + told(await log(one, from_offset=first.resume_offset)) == expected


async def test_very_long_line_is_split_into_parts(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    await say(handle, b"x" * 100_000, b"x" * 100_000, b"x" * 100_000)
    at, text = 0, ""
    while True:
        page = await log(handle, from_offset=at)
        text += "".join(line.text for line in page.lines)
        at = page.resume_offset
        if page.complete:
            break
    assert text == "ready" + "x" * 300_000 + "#"


async def test_closed_session_log_can_be_read(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    await say(handle, b"kept\r\n")
    await handle.close()
    assert ("line", "kept") in told(await log(handle))


@pytest.mark.also_remote("notices")
async def test_message_is_delivered_once_to_each_task(open_session: Open, controller: Controller) -> None:
    handle = await scripted_program(open_session)
    handle.task_id = "t"
    await handle.read(timeout_ms=0)
    request = {"session_id": handle.session_id, "message": "reload at\x1b[31m noon", "sender": "Ana"}
    reply = await controller.notify(NotifyRequest.of(request))
    assert "t" in reply.observers
    assert (await handle.read(timeout_ms=0)).notices == ["message from Ana: reload at [31m noon"]
    assert (await handle.read(timeout_ms=0)).notices is None
    handle.task_id = "u"
    assert (await handle.status()).notices == ["message from Ana: reload at [31m noon"]


@pytest.mark.also_remote("error of a message")
async def test_message_to_unknown_session_is_not_found(controller: Controller) -> None:
    with refused(ErrorCode.NOT_FOUND):
        await controller.notify(NotifyRequest(session_id="nope", message="x"))
    assert (await session(controller, "list")).sessions == []

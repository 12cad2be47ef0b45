"""QueryResponder: terminal queries get one reply each, at once, in order, sent as system input."""

from __future__ import annotations

import asyncio
import json

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.session.io.gate import Writer
from tests.session.conftest import Connect
from tests.session.screen.screen_actions import release_emulator, wait_for_reply, wait_without_reply
from tests.session.scripted_session import write_to


async def test_cursor_position_query_gets_one_reply(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"one\r\ntwo\x1b[6n")
    await wait_for_reply(channel, b"\x1b[2;4R")
    await wait_without_reply()
    assert bytes(channel.written) == b"\x1b[2;4R"


@pytest.mark.parametrize("cut", range(1, 5))
async def test_query_split_between_reads_is_replied_when_complete(connect: Connect, cut: int) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"text\r\n" + b"\x1b[6n"[:cut])
    await wait_without_reply()
    assert bytes(channel.written) == (b"\x1b[2;1R" if cut == 4 else b"")
    channel.feed(b"\x1b[6n"[cut:] + b"more")
    await wait_without_reply()
    assert bytes(channel.written) == b"\x1b[2;1R"


async def test_several_queries_are_replied_in_order(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"\x1b[6n\x1b[5n")
    channel.feed(b"\r\n\x1b[6n")
    await wait_for_reply(channel, b"\x1b[1;1R\x1b[0n\x1b[2;1R")


async def test_queries_for_all_256_colours_are_replied(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"".join(b"\x1b]4;%d;?\x07" % number for number in range(256)))
    await wait_for_reply(channel, b"\x1b]4;255;rgb:")
    assert channel.written.count(b"rgb:") == 256


async def test_query_after_much_output_is_replied_with_current_cursor(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptyctl.session.screen.terminal_queries.LATE_S", 60.0)  # a busy machine draws it later
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"text\r\n" * 100_000)
    channel.feed(b"x\x1b[6n")
    await wait_for_reply(channel, b"\x1b[40;2R")
    await wait_without_reply()
    assert bytes(channel.written) == b"\x1b[40;2R"


async def test_screen_reads_do_not_repeat_replies(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    for _ in range(3):
        channel.feed(b"\x1b[6n")
        await session.display.screen.state()
        await wait_without_reply()
        await release_emulator(session.display.screen)
        await session.display.screen.state()
        await session.display.screen.state_at(2)
    await wait_without_reply()
    assert bytes(channel.written) == b"\x1b[1;1R" * 3


async def test_reply_is_logged_as_system_input_even_with_echo_off(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, session_type="console", device_id="d")
    type(channel).echo_off = property(lambda self: True)  # type: ignore[method-assign, assignment]
    try:
        channel.feed(b"\x1b[5n")
        await wait_for_reply(channel, b"\x1b[0n")
    finally:
        del type(channel).echo_off
    (row,) = [json.loads(line) for line in (session.stream.folder / "input.jsonl").read_text().splitlines()]
    assert (row["by"], row["data"], row.get("sensitive")) == ("system", "\x1b[0n", None)
    assert session.lease() is None


async def test_reply_follows_input_that_is_sent_in_one_step(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.capacity = 3
    session.gate.type_now("whole word", Writer())
    channel.feed(b"\x1b[5n")
    await wait_without_reply()
    assert bytes(channel.written) == b"who"
    channel.unblock()
    await wait_for_reply(channel, b"\x1b[0n")
    assert bytes(channel.written) == b"whole word\x1b[0n"


async def test_reply_does_not_wait_for_paced_paste(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, protocol="telnet", host="scripted")
    pasting = asyncio.create_task(write_to(session, data="x\n" * 100))  # paced: 50 ms per line
    await asyncio.sleep(0)
    channel.feed(b"\x1b[5n")
    await wait_for_reply(channel, b"\x1b[0n")
    assert channel.written.count(b"x") < 50
    pasting.cancel()
    await asyncio.wait({pasting})

"""Programs that ask their terminal are answered: at once, once, in their order, and by the system."""

from __future__ import annotations

import asyncio
import json

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.session.io.gate import Writer
from tests.session.acting import write_to
from tests.session.conftest import Connect
from tests.session.screens import answered, let_go, settled


async def test_where_the_cursor_is(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"one\r\ntwo\x1b[6n")
    await answered(channel, b"\x1b[2;4R")
    await settled()
    assert bytes(channel.written) == b"\x1b[2;4R"


@pytest.mark.parametrize("cut", range(1, 5))
async def test_a_query_that_a_read_cut(connect: Connect, cut: int) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"text\r\n" + b"\x1b[6n"[:cut])
    await settled()
    assert bytes(channel.written) == (b"\x1b[2;1R" if cut == 4 else b"")
    channel.feed(b"\x1b[6n"[cut:] + b"more")
    await settled()
    assert bytes(channel.written) == b"\x1b[2;1R"


async def test_several_are_answered_in_their_order(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"\x1b[6n\x1b[5n")
    channel.feed(b"\r\n\x1b[6n")
    await answered(channel, b"\x1b[1;1R\x1b[0n\x1b[2;1R")


async def test_a_program_may_ask_for_all_colours_at_once(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"".join(b"\x1b]4;%d;?\x07" % number for number in range(256)))
    await answered(channel, b"\x1b]4;255;rgb:")
    assert channel.written.count(b"rgb:") == 256


async def test_answers_come_within_the_turn_also_behind_much_output(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"text\r\n" * 100_000)
    channel.feed(b"x\x1b[6n")
    await answered(channel, b"\x1b[40;2R")
    await settled()
    assert bytes(channel.written) == b"\x1b[40;2R"


async def test_readers_of_the_screen_do_not_answer_again(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    for _ in range(3):
        channel.feed(b"\x1b[6n")
        await session.display.screen.state()
        await settled()
        await let_go(session.display.screen)
        await session.display.screen.state()
        await session.display.screen.state_at(2)
    await settled()
    assert bytes(channel.written) == b"\x1b[1;1R" * 3


async def test_an_answer_is_the_systems_and_no_secret(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, session_type="console", device_id="d")
    type(channel).echo_off = property(lambda self: True)  # type: ignore[method-assign, assignment]
    try:
        channel.feed(b"\x1b[5n")
        await answered(channel, b"\x1b[0n")
    finally:
        del type(channel).echo_off
    (row,) = [json.loads(line) for line in (session.stream.folder / "input.jsonl").read_text().splitlines()]
    assert (row["by"], row["data"], row.get("sensitive")) == ("system", "\x1b[0n", None)
    assert session.lease() is None


async def test_an_answer_never_falls_into_what_goes_in_one_step(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.capacity = 3
    session.gate.type_now("whole word", Writer())
    channel.feed(b"\x1b[5n")
    await settled()
    assert bytes(channel.written) == b"who"
    channel.unblock()
    await answered(channel, b"\x1b[0n")
    assert bytes(channel.written) == b"whole word\x1b[0n"


async def test_an_answer_does_not_wait_for_a_paste(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, protocol="telnet", host="scripted")
    pasting = asyncio.create_task(write_to(session, data="x\n" * 100))  # paced: 50 ms a line
    await asyncio.sleep(0)
    channel.feed(b"\x1b[5n")
    await answered(channel, b"\x1b[0n")
    assert channel.written.count(b"x") < 50
    pasting.cancel()
    await asyncio.wait({pasting})

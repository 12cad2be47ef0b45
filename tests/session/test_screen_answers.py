"""Programs that ask their terminal are answered: at once, once, and only as often as a program can mean it."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.controller.recovered import recovered
from ptyctl.session import screen_answers
from ptyctl.session.gate import Writer
from ptyctl.session.screen_answers import BURST, Allowance
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from tests.session.acting import connected, write_to
from tests.session.conftest import Connect
from transports.memory import MemoryChannel

PATIENCE_S = 20


async def answered(channel: MemoryChannel, expected: bytes) -> None:
    """Waits for what must be typed."""
    async with asyncio.timeout(PATIENCE_S):
        while expected not in channel.written:
            await asyncio.sleep(0)


async def settled() -> None:
    """Turns of the loop in which an answer would have been typed."""
    for _ in range(20):
        await asyncio.sleep(0)


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
        await session.display.screen.view()
        await settled()
        async with session.display.screen._lock:
            session.display.screen._drop()
        await session.display.screen.view()
        await session.display.screen.view_at(2)
    await settled()
    assert bytes(channel.written) == b"\x1b[1;1R" * 3


async def test_nothing_is_answered_while_a_persons_terminal_is_attached(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    session.display.attached_terminals += 1
    channel.feed(b"\x1b[6n")
    await settled()
    session.display.attached_terminals -= 1
    await session.display.screen.view()
    channel.feed(b"text\x1b[5n")
    await answered(channel, b"\x1b[0n")
    assert bytes(channel.written) == b"\x1b[0n"


async def test_nothing_is_answered_without_a_terminal(connect: Connect) -> None:
    channel = MemoryChannel()
    channel.pty_enabled = False
    await connect(channel)
    channel.feed(b"\x1b[6n")
    await settled()
    assert not channel.written


async def test_nothing_is_answered_after_a_recovery(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connected(tmp_path, channel)
    channel.feed(b"\x1b[6n")
    shutil.copytree(tmp_path / "s", tmp_path / "left" / "s")
    await session.close(force=True)
    found = recovered(tmp_path / "left", "s", Limits())
    assert found is not None
    again = MemoryChannel()
    await found.connect(again)
    await found.display.screen.view()
    again.feed(b"text")
    await found.display.screen.view()
    await settled()
    assert not again.written
    await found.close(force=True)


async def test_an_answer_is_the_systems_and_no_secret(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, session_type="console", device_id="d")
    type(channel).echo_off = property(lambda self: True)  # type: ignore[method-assign, assignment]
    try:
        channel.feed(b"\x1b[5n")
        await answered(channel, b"\x1b[0n")
    finally:
        del type(channel).echo_off
    (row,) = [json.loads(line) for line in (session.stream.transcript.folder / "input.jsonl").read_text().splitlines()]
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


async def test_a_million_queries_do_not_flood_the_far_end(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    for _ in range(100):
        channel.feed(b"\x1b[6n\r\n" * 10_000)
        await settled()
    assert channel.written.count(b"R") <= 2 * BURST
    view = await session.display.screen.view()
    assert view.raw == 6_000_000


async def test_an_answer_that_comes_too_late_is_not_typed(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_answers, "LATE_S", -1.0)
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"\x1b[6n")
    await settled()
    assert not channel.written
    assert session.display.screen.answer_from is None


async def test_the_far_end_may_be_gone_by_then(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"\x1b[6n")
    channel.end()
    await settled()
    assert (await session.display.screen.view()).raw == 4
    with pytest.raises(PtyctlError) as caught:
        session.open_channel()
    assert caught.value.code is ErrorCode.REMOTE_CLOSED


async def test_closing_while_an_answer_is_on_its_way(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session: Session = await connected(tmp_path, channel)
    channel.capacity = 0
    channel.feed(b"\x1b[6n")
    await settled()
    await session.close(force=True)
    assert not channel.written


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 400)), max_size=20))
def test_no_more_than_the_allowance_is_taken(asks: list[tuple[float, int]]) -> None:
    allowance, now, taken = Allowance(BURST, 64.0), 0.0, 0
    for passed, wanted in asks:
        now += passed
        count = min(wanted, allowance.left(now))
        assert count >= 0
        allowance.take(count)
        taken += count
        assert taken <= BURST + 64.0 * now

"""What asks its terminal is not answered where nobody waits for it, and only as often as a program can mean it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.controller.recovery import restore_session
from ptyctl.session.io.query_detection import COLLECT_S, FLOOD_BYTES, FLOOD_TAIL_BYTES
from ptyctl.session.screen import query_responder as screen_answers
from ptyctl.session.screen.query_responder import BURST, REPLIES_PER_S, TokenBucket
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from tests.session.acting import connected, run_in, until
from tests.session.conftest import Connect
from tests.session.screens import answered, settled


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
    found = await restore_session(tmp_path / "left", "s", Limits(), hold=True)
    assert found is not None
    again = MemoryChannel()
    await found.connect(again)
    await found.display.screen.state()
    again.feed(b"text")
    await found.display.screen.state()
    await settled()
    assert not again.written
    await found.close(force=True)


async def test_a_million_queries_do_not_flood_the_far_end(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    begun = asyncio.get_running_loop().time()
    for _ in range(100):
        channel.feed(b"\x1b[6n\r\n" * 10_000)
        await asyncio.sleep(COLLECT_S)
    await answered(channel, b"R")
    state = await session.display.screen.state()
    assert state.raw == 6_000_000
    await settled()
    seconds = asyncio.get_running_loop().time() - begun
    assert channel.written.count(b"R") <= BURST + REPLIES_PER_S * seconds


async def test_what_is_asked_at_the_end_of_a_flood_is_answered(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    for _ in range(3 * FLOOD_TAIL_BYTES // FLOOD_BYTES):
        channel.feed(b"\x1b[1mflood\x1b[m\r\n" * (FLOOD_BYTES // 12))
        await asyncio.sleep(0)
    channel.feed(b"x\x1b[6n")
    channel.feed(b"more")
    await answered(channel, b"\x1b[40;2R")


async def test_what_nobody_waited_for_is_not_answered(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"\x1b[6n")
    channel.feed(b"flood\r\n" * (3 * FLOOD_TAIL_BYTES // 7))
    await settled()
    assert not channel.written


async def test_who_has_ended_is_not_answered(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    mark = f"\x1b]7717;{session.shell_nonce};1;E;0\x07".encode()
    channel.feed(b"\x1b[6n" + mark)
    await settled()
    channel.feed(b"\x1b[6n")
    channel.feed(mark.replace(b";1;", b";2;"))
    await settled()
    assert not channel.written
    channel.feed(mark.replace(b";1;", b";3;") + b"\x1b[5n")  # the shell asks, as fish does at its prompt
    await answered(channel, b"\x1b[0n")


async def test_a_prompt_among_the_lines_of_a_command_is_not_answered_behind_them(connect: Connect) -> None:
    """As busybox does: it asks at the prompt of each line that is still to be read."""
    channel = MemoryChannel()
    session = await connect(channel)
    mark = f"\x1b]7717;{session.shell_nonce};%d;%s\x07"
    channel.feed((mark % (1, "P;0;1;/") + "$ ").encode())
    run = asyncio.create_task(run_in(session, "cat <<END\none\nEND", rc_mode={"enabled": True}))
    await until(lambda: channel.written.count(b"END") == 2)
    await settled()
    typed = len(channel.written)
    channel.feed(b"cat <<END\r\n> \x1b[6n")
    await settled()
    assert channel.written[typed:] == b""
    channel.feed(("one\r\n> END\r\n" + mark % (2, "B") + "\x1b[5n").encode())  # the command itself asks
    await until(lambda: channel.written[typed:] == b"\x1b[0n")
    run.cancel()


async def test_a_terminal_that_gathers_lines_has_nobody_who_waits(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_answers, "RAW_MODE_S", 0.0)
    channel = MemoryChannel()
    await connect(channel)
    monkeypatch.setattr(MemoryChannel, "canonical", True)
    channel.feed(b"\x1b[5n")
    await settled()
    assert not channel.written
    monkeypatch.setattr(MemoryChannel, "canonical", False)
    channel.feed(b"\x1b[c")
    await answered(channel, b"\x1b[?62;22c")
    assert not channel.written.startswith(b"\x1b[0n")


async def test_an_answer_that_comes_too_late_is_not_typed(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_answers, "LATE_S", -1.0)
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"\x1b[6n")
    await settled()
    assert not channel.written
    assert not session.display.screen.collecting_replies


async def test_the_far_end_may_be_gone_by_then(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"\x1b[6n")
    channel.end()
    await settled()
    assert (await session.display.screen.state()).raw == 4
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
    allowance, now, taken = TokenBucket(BURST, REPLIES_PER_S), 0.0, 0
    for passed, wanted in asks:
        now += passed
        count = min(wanted, allowance.available(now))
        assert count >= 0
        allowance.take(count)
        taken += count
        assert taken <= BURST + REPLIES_PER_S * now


async def test_a_prompt_that_asked_and_got_its_command_is_not_answered(connect: Connect) -> None:
    channel = MemoryChannel(lambda data: data[:-1] + b"\r\nout\r\nsw#\x1b[6n" if data.endswith(b"\r") else b"")
    session = await connect(channel, platform="cisco_ios")
    channel.feed(b"sw#")
    await run_in(session, "first")
    assert (await run_in(session, "second")).stdout == "out\n"  # typed at once, at a prompt that has just asked
    await answered(channel, b"R")
    await settled()
    assert bytes(channel.written).endswith(b"second\r\x1b[5;4R")
    assert channel.written.count(b"R") == 1

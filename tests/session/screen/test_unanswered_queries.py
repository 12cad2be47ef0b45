"""Queries without a reply: no terminal, no waiting program, or a rate above the limit."""

from __future__ import annotations

import asyncio
import math
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.controller.recovery import restore_session
from ptyctl.session.screen import screen, terminal_queries
from ptyctl.session.screen.terminal_queries import BURST, COLLECT_S, FLOOD_BYTES, REPLIES_PER_S, TokenBucket
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from tests.session.conftest import Connect
from tests.session.screen.screen_actions import wait_for_reply, wait_without_reply
from tests.session.scripted_session import connect_session, run_command, wait_until


async def test_query_without_terminal_gets_no_reply(connect: Connect) -> None:
    channel = MemoryChannel()
    channel.pty_enabled = False
    await connect(channel)
    channel.feed(b"\x1b[6n")
    await wait_without_reply()
    assert not channel.written


async def test_query_from_before_crash_gets_no_reply_after_recovery(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
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
    await wait_without_reply()
    assert not again.written
    await found.close(force=True)


async def test_replies_to_hundred_thousand_queries_stay_within_rate_limit(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine renders this flood in more than LATE_S; late replies would be dropped, and the limit not be reached."""
    monkeypatch.setattr(terminal_queries, "LATE_S", math.inf)
    monkeypatch.setattr(screen, "LOOK_TIMEOUT_S", math.inf)
    channel = MemoryChannel()
    session = await connect(channel)
    begun = asyncio.get_running_loop().time()
    queries = b"\x1b[6n\r\n" * (FLOOD_BYTES // 5)
    for _ in range(100_000 * 6 // len(queries) + 1):
        channel.feed(queries)
        await asyncio.sleep(COLLECT_S)
    await wait_for_reply(channel, b"R")
    state = await session.display.screen.state()
    assert state.raw >= 100_000 * 6
    await wait_without_reply()
    seconds = asyncio.get_running_loop().time() - begun
    assert channel.written.count(b"R") <= BURST + REPLIES_PER_S * seconds


async def test_query_at_end_of_flood_is_replied(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    for _ in range(12):
        channel.feed(b"\x1b[1mflood\x1b[m\r\n" * (FLOOD_BYTES // 12))
        await asyncio.sleep(0)
    channel.feed(b"x\x1b[6n")
    channel.feed(b"more")
    await wait_for_reply(channel, b"\x1b[40;2R")


async def test_query_followed_by_flood_gets_no_reply(connect: Connect) -> None:
    channel = MemoryChannel()
    await connect(channel)
    channel.feed(b"\x1b[6n")
    channel.feed(b"flood\r\n" * 30_000)
    await wait_without_reply()
    assert not channel.written


async def test_query_of_ended_program_gets_no_reply(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    mark = f"\x1b]7717;{session.shell_nonce};1;E;0\x07".encode()
    channel.feed(b"\x1b[6n" + mark)
    await wait_without_reply()
    channel.feed(b"\x1b[6n")
    channel.feed(mark.replace(b";1;", b";2;"))
    await wait_without_reply()
    assert not channel.written
    channel.feed(mark.replace(b";1;", b";3;") + b"\x1b[5n")  # a query of the shell, as from fish at its prompt
    await wait_for_reply(channel, b"\x1b[0n")


async def test_query_of_continuation_prompt_with_pending_lines_gets_no_reply(connect: Connect) -> None:
    """busybox sends a query with the prompt of each line that it has still to read."""
    channel = MemoryChannel()
    session = await connect(channel)
    mark = f"\x1b]7717;{session.shell_nonce};%d;%s\x07"
    channel.feed((mark % (1, "P;0;1;/") + "$ ").encode())
    run = asyncio.create_task(run_command(session, "cat <<END\none\nEND", rc_mode={"enabled": True}))
    await wait_until(lambda: channel.written.count(b"END") == 2)
    await wait_without_reply()
    typed = len(channel.written)
    channel.feed(b"cat <<END\r\n> \x1b[6n")
    await wait_without_reply()
    assert channel.written[typed:] == b""
    channel.feed(("one\r\n> END\r\n" + mark % (2, "B") + "\x1b[5n").encode())  # a query of the command itself
    await wait_until(lambda: channel.written[typed:] == b"\x1b[0n")
    run.cancel()


async def test_query_in_canonical_mode_gets_no_reply(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_queries, "RAW_MODE_S", 0.0)
    channel = MemoryChannel()
    await connect(channel)
    monkeypatch.setattr(MemoryChannel, "canonical", True)
    channel.feed(b"\x1b[5n")
    await wait_without_reply()
    assert not channel.written
    monkeypatch.setattr(MemoryChannel, "canonical", False)
    channel.feed(b"\x1b[c")
    await wait_for_reply(channel, b"\x1b[?64;6;21;22;28c")
    assert not channel.written.startswith(b"\x1b[0n")


@pytest.mark.parametrize("step", range(6))
async def test_query_of_a_program_whose_shell_returns_meanwhile_gets_no_reply(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The shell sends its mark and leaves canonical mode when the responder looks at the channel for the `step`th time."""
    channel = MemoryChannel()
    session = await connect(channel)
    mark = f"\x1b]7717;{session.shell_nonce};1;E;0\x07".encode()
    steps = 0

    def ask() -> int:
        nonlocal steps
        steps += 1
        if steps == step + 1:
            asyncio.get_running_loop().call_soon(channel.feed, mark)
        return steps

    monkeypatch.setattr(MemoryChannel, "canonical", property(lambda self: ask() <= step))
    monkeypatch.setattr(MemoryChannel, "input_is_read", lambda self: ask() and None)
    channel.feed(b"\x1b[6n")
    await wait_until(lambda: steps > step)
    await wait_without_reply()
    assert not channel.written


async def test_query_gets_no_reply_if_mark_of_reading_shell_is_late(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    mark = f"\x1b]7717;{session.shell_nonce};1;E;0\x07".encode()
    looks = 0

    def read() -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            asyncio.get_running_loop().call_later(terminal_queries.HOLD_S / 2, channel.feed, mark)
        return True

    monkeypatch.setattr(MemoryChannel, "canonical", False)
    monkeypatch.setattr(MemoryChannel, "input_is_read", lambda self: read())
    monkeypatch.setattr(MemoryChannel, "leads_foreground", lambda self: True)
    channel.feed(b"\x1b[6n")
    await wait_until(lambda: looks == 2)
    await wait_without_reply()
    assert not channel.written


async def test_reply_waits_until_shell_at_work_reads(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that leaves canonical mode after a command reads only below its mark; other programs may ask while they work."""
    monkeypatch.setattr(terminal_queries, "RAW_MODE_S", 0.0)
    channel = MemoryChannel()
    session = await connect(channel)
    shell = {"reads": False, "leads": True}
    monkeypatch.setattr(MemoryChannel, "canonical", False)
    monkeypatch.setattr(MemoryChannel, "input_is_read", lambda self: shell["reads"])
    monkeypatch.setattr(MemoryChannel, "leads_foreground", lambda self: shell["leads"])
    channel.feed(b"\x1b[6n")
    await wait_without_reply()
    assert not channel.written
    shell["reads"] = True
    channel.feed(f"\x1b]7717;{session.shell_nonce};1;E;0\x07".encode())
    await wait_without_reply()
    assert not channel.written
    channel.feed(b"\x1b[5n")
    await wait_for_reply(channel, b"\x1b[0n")
    shell = {"reads": False, "leads": False}
    channel.feed(b"\x1b[c")
    await wait_for_reply(channel, b"\x1b[?64;6;21;22;28c")


async def test_late_reply_is_dropped(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_queries, "LATE_S", -1.0)
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"\x1b[6n")
    await wait_without_reply()
    assert not channel.written
    assert not session.display.screen.collecting_replies


async def test_reply_after_channel_end_is_dropped(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"\x1b[6n")
    channel.end()
    await wait_without_reply()
    assert (await session.display.screen.state()).raw == 4
    with pytest.raises(PtyctlError) as caught:
        session.open_channel()
    assert caught.value.code is ErrorCode.REMOTE_CLOSED


async def test_close_while_reply_is_pending_drops_reply(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session: Session = await connect_session(tmp_path, channel)
    channel.capacity = 0
    channel.feed(b"\x1b[6n")
    await wait_without_reply()
    await session.close(force=True)
    assert not channel.written


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 400)), max_size=20))
def test_token_bucket_never_exceeds_burst_plus_rate(requests: list[tuple[float, int]]) -> None:
    bucket, now, taken = TokenBucket(BURST, REPLIES_PER_S), 0.0, 0
    for passed, wanted in requests:
        now += passed
        count = min(wanted, bucket.available(now))
        assert count >= 0
        bucket.take(count)
        taken += count
        assert taken <= BURST + REPLIES_PER_S * now


async def test_query_of_prompt_that_already_got_command_gets_no_reply(connect: Connect) -> None:
    channel = MemoryChannel(lambda data: data[:-1] + b"\r\nout\r\nsw#\x1b[6n" if data.endswith(b"\r") else b"")
    session = await connect(channel, platform="cisco_ios")
    channel.feed(b"sw#")
    await run_command(session, "first")
    assert (await run_command(session, "second")).stdout == "out\n"  # typed at a prompt that has just sent a query
    await wait_for_reply(channel, b"R")
    await wait_without_reply()
    assert bytes(channel.written).endswith(b"second\r\x1b[5;4R")
    assert channel.written.count(b"R") == 1

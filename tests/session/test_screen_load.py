"""The screen under load: nobody looks, much is unseen, and the disk or the quota is full."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.session import PtyOptions
from ptyctl.core.screen import ScreenModel
from ptyctl.session.screen import screen as screen_module
from ptyctl.session.screen.screen import INLINE_BYTES
from ptyctl.session.spec import Limits
from tests.session.acting import until
from tests.session.conftest import Connect
from tests.session.screens import let_go


async def test_nobody_looking_makes_no_screen(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScreenModel, "feed", lambda self, data: pytest.fail("nobody looks"))
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"\x1b[1mtext\x1b[m\r\n" * 10_000)
    session.stream.flush()
    assert not list(session.stream.folder.glob("screen*"))


async def test_what_is_far_behind_is_folded_in_a_thread_and_others_go_on(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=40, rows=4))
    channel.feed(b"\x1b[2;2Hx\x1b[3;3Hyy" * (4 * INLINE_BYTES // 14))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    state = await session.display.screen.state()
    counting.cancel()
    assert turns > 5
    assert state.snapshot.rows == ("", " x", "  yy", "")


async def test_a_look_that_is_given_up_leaves_the_fold_whole(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=40, rows=4))
    channel.feed(b"\x1b[2;2Hx\x1b[3;3Hyy" * (8 * INLINE_BYTES // 14))
    screen = session.display.screen
    for _ in range(5):
        looking = asyncio.create_task(screen.state())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        looking.cancel()
        await asyncio.wait({looking})
    assert (await screen.state()).snapshot.rows == ("", " x", "  yy", "")


async def test_much_unseen_output_is_folded_before_anybody_looks(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_module, "FAR_BEHIND_BYTES", 1000)
    monkeypatch.setattr(screen_module, "SETTLE_S", 0.0)
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"text\r\n" * 1000)
    session.stream.flush()
    await until(lambda: session.display.screen._replayed_raw == 6000)


async def test_past_the_quota_the_screen_is_fed_live_and_says_so(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, limits=Limits(quota_bytes=128 * 1024), pty=PtyOptions(cols=40, rows=3))
    channel.feed(b"before\r\n" * 40_000)
    state = await session.display.screen.state()
    assert state.snapshot.rows == ("before", "before", "")
    channel.feed(b"after\r\nthe gap")
    state = await session.display.screen.state()
    assert (state.snapshot.rows, state.raw) == (("before", "after", "the gap"), 8 * 40_000 + 14)
    assert "disk or the quota" in (session.display.status_message() or "")
    channel.feed(b"\r\nmuch more" * 200_000)
    assert session.display.source.unpersisted_bytes > 1 << 20
    session.stream.flush()
    await until(lambda: not session.display.source.unpersisted_bytes)
    assert (await session.display.screen.state()).snapshot.rows[-1] == "much more"
    assert session.display.source.lost == 0


async def test_what_comes_faster_than_it_is_drawn_is_told(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, limits=Limits(quota_bytes=128 * 1024), pty=PtyOptions(cols=40, rows=3))
    channel.feed(b"text\r\n" * 3_000_000 + b"the end")
    state = await session.display.screen.state()
    assert state.snapshot.rows == ("text", "text", "the end")
    assert state.raw == session.stream.raw_size
    assert session.display.source.lost > 1 << 20
    assert f"{session.display.source.lost} bytes" in (session.display.status_message() or "")


async def test_a_full_disk_keeps_the_screen_in_memory(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=40, rows=3))
    channel.feed(b"text")
    await session.display.screen.state()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_text", full)
        await let_go(session.display.screen)
    assert session.display.screen._replay is not None
    assert not list(session.stream.folder.glob("screen.snapshot*"))

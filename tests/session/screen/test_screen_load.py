"""Screen under load: unread output, output far behind, and a full disk or quota."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from fixtures.loop_turns import counted_turns
from fixtures.memory_channel import MemoryChannel
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import PtyOptions
from ptyctl.core.screen import ScreenModel
from ptyctl.session.calls import watch as watch_module
from ptyctl.session.calls.watch import watch
from ptyctl.session.screen import screen as screen_module
from ptyctl.session.screen.screen import INLINE_BYTES, INLINE_COST, Screen
from ptyctl.session.spec import Limits
from tests.session.conftest import Connect
from tests.session.screen.screen_actions import release_emulator
from tests.session.scripted_session import wait_until


async def test_unread_screen_is_not_rendered(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScreenModel, "feed", lambda self, data: pytest.fail("rendered without a reader"))
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"\x1b[1mtext\x1b[m\r\n" * 10_000)
    session.stream.flush()
    assert not list(session.stream.folder.glob("screen*"))


async def test_screen_far_behind_is_rendered_without_blocking_event_loop(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=40, rows=4))
    channel.feed(b"\x1b[2;2Hx\x1b[3;3Hyy" * (4 * INLINE_BYTES // 14))
    with counted_turns() as turns:
        state = await session.display.screen.state()
    assert turns.count > 5
    assert state.snapshot.rows == ("", " x", "  yy", "")


async def test_cancelled_screen_reads_keep_emulator_consistent(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=40, rows=4))
    channel.feed(b"\x1b[2;2Hx\x1b[3;3Hyy" * (8 * INLINE_BYTES // 14))
    screen = session.display.screen
    for _ in range(5):
        reading = asyncio.create_task(screen.state())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait({reading})
    assert (await screen.state()).snapshot.rows == ("", " x", "  yy", "")


async def test_much_unseen_output_is_rendered_in_advance(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_module, "FAR_BEHIND_BYTES", 1000)
    monkeypatch.setattr(screen_module, "OUTPUT_PAUSE_S", 0.0)
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"text\r\n" * 1000)
    session.stream.flush()
    await wait_until(lambda: session.display.screen._replayed_raw == 6000)


async def test_expensive_unseen_output_is_rendered_in_several_rounds(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is bounded by its time too: while it lasts, output of all sessions waits for the interpreter lock."""
    for limit in ("OUTPUT_PAUSE_S", "QUIET_S", "THREAD_TURN_S"):
        monkeypatch.setattr(screen_module, limit, 0.0)
    monkeypatch.setattr(screen_module, "FAR_BEHIND_BYTES", 1000)
    monkeypatch.setattr(screen_module, "QUIET_BYTES", 200_000)
    channel = MemoryChannel()
    session = await connect(channel)
    screen, rounds, end_round = session.display.screen, list[int](), Screen._looked
    monkeypatch.setattr(Screen, "_looked", lambda self: (rounds.append(self._replayed_raw), end_round(self)))
    channel.feed(b"\x1b[2;2Hx\x1b[3;3Hyy" * 20_000)
    session.stream.flush()
    await wait_until(lambda: session.stream.raw_size - screen._replayed_raw < 200_000)
    assert len(rounds) > 3
    assert rounds == sorted(rounds)


async def test_screen_past_quota_is_rendered_from_memory_and_reports_it(connect: Connect) -> None:
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
    await wait_until(lambda: not session.display.source.unpersisted_bytes)
    assert (await session.display.screen.state()).snapshot.rows[-1] == "much more"
    assert session.display.source.lost == 0


async def test_output_past_quota_faster_than_rendering_is_reported_as_lost(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, limits=Limits(quota_bytes=128 * 1024), pty=PtyOptions(cols=40, rows=3))
    channel.feed(b"text\r\n" * 3_000_000 + b"the end")
    state = await session.display.screen.state()
    assert state.snapshot.rows == ("text", "text", "the end")
    assert state.raw == session.stream.raw_size
    assert session.display.source.lost > 1 << 20
    assert f"{session.display.source.lost} bytes" in (session.display.status_message() or "")


async def test_release_on_full_disk_keeps_emulator_in_memory(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=40, rows=3))
    channel.feed(b"text")
    await session.display.screen.state()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_text", full)
        await release_emulator(session.display.screen)
    assert session.display.screen._replay is not None
    assert not list(session.stream.folder.glob("screen.snapshot*"))


@pytest.mark.parametrize(
    "unit", [b"\x1b[1;1;1;1;;*y", b"\x1b[1;1;99;999;1$r", b"\x1b[9'}", b"x\x1b[999999b", b'\x1b[1"qx\x1b[!p'], ids=repr
)
async def test_expensive_output_is_drawn_outside_event_loop(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, unit: bytes
) -> None:
    inline, steps = 0, ScreenModel.steps

    def measured(model: ScreenModel, data: bytes) -> Iterator[None]:
        nonlocal inline
        drawing, ended = steps(model, data), False
        while not ended:
            before = model.cost
            ended = next(drawing, unit) is unit
            if threading.current_thread() is threading.main_thread():
                inline += model.cost - before
            if not ended:
                yield

    monkeypatch.setattr(ScreenModel, "steps", measured)
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=100, rows=40))
    channel.feed(unit * (4096 // len(unit)))
    state = await session.display.screen.state()
    assert state.raw == session.stream.raw_size
    assert 0 < inline < 2 * INLINE_COST


async def test_large_screen_is_read_outside_event_loop(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    read, threads = dict[str, Callable[..., object]](), set[str]()

    def noting(name: str) -> Callable[..., object]:
        def call(model: ScreenModel, *args: object, **kwargs: object) -> object:
            threads.add(threading.current_thread().name)
            return read[name](model, *args, **kwargs)

        return call

    for name in ("snapshot", "serialize", "steps", "resize"):
        read[name] = getattr(ScreenModel, name)
        monkeypatch.setattr(ScreenModel, name, noting(name))
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=500, rows=300))
    channel.feed(b"text")
    assert (await session.display.screen.state()).snapshot.rows[0] == "text"
    session.resize(400, 400)
    await session.display.deltas.record()
    async for item in watch(session):
        assert item.data_b64
        break
    await session.display.screen.write_snapshot()
    assert threads == {"screen_0"}


async def test_watch_of_a_flood_faster_than_drawing_ends_with_busy(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    channel, looks = MemoryChannel(), 0
    session = await connect(channel)

    @asynccontextmanager
    async def behind() -> AsyncIterator[None]:
        nonlocal looks
        looks += 1
        assert looks < 9, "it is drawn forever"
        raise PtyctlError(ErrorCode.BUSY, "behind the output")
        yield

    monkeypatch.setattr(watch_module, "_PAINT_TIMEOUT_S", 0.0)
    async with aclosing(watch(session, max_behind=100)) as items:
        await anext(items)
        monkeypatch.setattr(session.screen, "current", behind)
        channel.feed(b"x" * 1000)
        session.stream.flush()
        with pytest.raises(PtyctlError, match="behind the output"):
            _ = [item async for item in items]

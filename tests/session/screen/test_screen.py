"""Screen: its state at any offset equals that of an emulator fed with all output, however it was computed."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.session import PtyOptions
from ptyctl.controller.recovery import restore_session
from ptyctl.core.screen import ScreenModel, ScreenSnapshot, StyledRun
from ptyctl.core.screen import emulator as emulator_module
from ptyctl.session.screen import screen as screen_module
from ptyctl.session.screen import screen_replay
from ptyctl.session.screen.checkpoints import Checkpoints
from ptyctl.session.screen.output_source import OutputSource
from ptyctl.session.screen.screen_replay import ScreenReplay
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from tests.session.conftest import Connect
from tests.session.screen.screen_actions import release_emulator
from tests.session.scripted_session import connect_session
from transports.errors import ChannelEnded

Act = tuple[str, bytes, tuple[int, int]]
act_lists = st.lists(
    st.tuples(
        st.sampled_from(["print"] * 6 + ["resize", "look", "release", "reconnect"]),
        st.lists(
            st.sampled_from(
                [
                    *(b"text", b"\r\n", b"line\r\n" * 40, b"\t", b"\xe2\x98", b"\x83", b"\x1b[", b"0m", b"\x1bP+q", b"\x1b[K"),
                    *(b"\x1b[2;3H", b"\x1b[1;31m", b"\x1b[2;4r", b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b7", b"\x1b8"),
                    b"\x1b]2;title\x07",
                ]
            ),
            max_size=8,
        ).map(b"".join),
        st.tuples(st.integers(1, 20), st.integers(1, 8)),
    ),
    max_size=14,
)


def run(work: Callable[[Path], Awaitable[None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(work(Path(folder)))


class Reference:
    """An emulator that is fed all output, and its snapshots: `earlier` and `shown` before and after resizes at an offset."""

    def __init__(self, cols: int, rows: int) -> None:
        self.model = ScreenModel(cols, rows)
        self.raw = 0
        self.shown: dict[int, ScreenSnapshot] = {}
        self.earlier: dict[int, ScreenSnapshot] = {}
        self.note()

    def note(self) -> None:
        self.shown[self.raw] = self.model.snapshot(attributes=True)
        self.earlier.setdefault(self.raw, self.shown[self.raw])

    def print(self, data: bytes) -> None:
        self.model.feed(data)
        self.raw += len(data)
        self.note()

    def resize(self, size: tuple[int, int]) -> None:
        self.model.resize(*size)
        self.note()

    def reconnect(self) -> None:
        self.model.feed(b"\x18\x1bc")
        self.note()


async def perform(session: Session, channel: MemoryChannel, reference: Reference, act: Act) -> MemoryChannel:
    kind, data, size = act
    if kind == "print":
        channel.feed(data)
        reference.print(data)
    elif kind == "resize":
        session.resize(*size)
        reference.resize(size)
    elif kind == "reconnect":
        channel.end(ChannelEnded("end"))
        channel = MemoryChannel()
        await session.connect(channel)
        reference.reconnect()
    elif kind == "look":
        state = await session.display.screen.state(attributes=True)
        assert (state.raw, state.snapshot) == (reference.raw, reference.shown[reference.raw])
    else:
        await release_emulator(session.display.screen)
    return channel


@settings(max_examples=80)
@given(act_lists, st.booleans())
def test_screen_at_any_offset_equals_reference_before_and_after_crash(acts: list[Act], checkpoint_each: bool) -> None:
    async def work(folder: Path) -> None:
        channel = MemoryChannel()
        session = await connect_session(folder, channel, pty=PtyOptions(cols=10, rows=4))
        reference = Reference(10, 4)
        for act in acts:
            channel = await perform(session, channel, reference, act)
        screen = session.display.screen
        for raw, picture in reference.earlier.items():
            if raw < reference.raw:
                assert (await screen.state_at(raw, attributes=True)).snapshot == picture, raw
        assert (await screen.state(attributes=True)).snapshot == reference.shown[reference.raw]
        shutil.copytree(folder / "s", folder / "left" / "s")
        await session.close(force=True)
        await check_restored(folder / "left", reference)

    with (
        patch.object(screen_module, "CHECKPOINT_S", 0.0 if checkpoint_each else 60.0),
        patch.object(screen_module, "INLINE_COST", 1 << 12),
        patch.object(screen_module, "THREAD_TURN_S", 0.0),
        patch.object(emulator_module, "STEP_COST", 1 << 12),
    ):
        run(work)


async def check_restored(sessions: Path, reference: Reference) -> None:
    """Compare a session restored from a copy of the files with the reference."""
    session = await restore_session(sessions, "s", Limits(), hold=True)
    assert session is not None
    screen = session.display.screen
    assert (await screen.state(attributes=True)).snapshot == reference.shown[reference.raw]
    for raw, picture in reference.earlier.items():
        if raw < reference.raw:
            assert (await screen.state_at(raw, attributes=True)).snapshot == picture
    await session.close()
    assert (await screen.state(attributes=True)).snapshot == reference.shown[reference.raw]


async def test_scrollback_survives_release_of_emulator(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=20, rows=4))
    channel.feed(b"".join(b"\x1b[31mline %d\x1b[m\r\n" % number for number in range(50)))
    for _ in range(2):
        async with session.display.screen.current() as replay:
            assert replay.model.scrollback(3) == ["line 44", "line 45", "line 46"]
            assert len(replay.model.scrollback(1000)) == 47
            lines = replay.model.scrollback_range(40, 2, attributes=True)
            assert (lines.lines, lines.first, lines.end) == (("line 40", "line 41"), 40, 47)
            assert lines.attributes == ((StyledRun(0, 7, fg="red"),),) * 2
        session.resize(10, 4)
        await release_emulator(session.display.screen)


async def test_scrollback_of_wide_lines_survives_narrower_screen(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=20, rows=2))
    lines = ["日本語日本語日本語日", "x" * 20, "é" * 20, ""]
    channel.feed("\r\n".join([*lines, "", "last"]).encode())
    session.resize(7, 2)
    for _ in range(3):
        async with session.display.screen.current() as replay:
            assert replay.model.scrollback(10) == lines
        await release_emulator(session.display.screen)


async def test_snapshot_file_holds_readable_rows_and_private_mode(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=40, rows=3))
    channel.feed("\x1b]2;a title\x07héllo\r\n".encode())
    await session.display.screen.state()
    await release_emulator(session.display.screen)
    path = session.stream.folder / "screen.snapshot.json"
    snapshot = json.loads(path.read_text())
    assert snapshot["rows"] == ["héllo", "", ""]
    assert (snapshot["cursor"], snapshot["title"], snapshot["alt_screen"]) == ({"row": 1, "col": 0}, "a title", False)
    assert (snapshot["cols"], snapshot["rows_count"], snapshot["raw_offset"]) == (40, 3, session.stream.raw_size)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"raw_offset": 4, "step": 0, "size": [9, 9], "paint_b64": "!"}'])
async def test_damaged_snapshot_is_rebuilt(connect: Connect, damage: bytes) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=40, rows=3))
    channel.feed(b"text")
    await session.display.screen.state()
    await release_emulator(session.display.screen)
    (session.stream.folder / "screen.snapshot.json").write_bytes(damage)
    assert (await session.display.screen.state()).snapshot.rows == ("text", "", "")


async def test_screen_after_200_resizes_has_last_size(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=80, rows=24))
    channel.feed(b"text\r\n" * 30)
    for number in range(200):
        session.resize(1 + number * 7 % 200, 1 + number * 5 % 60)
        channel.feed(b"\x1b[%d;%dHx" % (number % 50, number))
        if number % 3 == 0:
            await session.display.screen.state()
    session.resize(33, 7)
    picture = (await session.display.screen.state()).snapshot
    assert (picture.cols, picture.rows_count, len(picture.rows)) == (33, 7, 7)
    assert picture.cursor[0] < 7
    assert picture.cursor[1] < 33


async def test_new_incarnation_gets_current_size(connect: Connect) -> None:
    first, second = MemoryChannel(), MemoryChannel()
    session = await connect(first, pty=PtyOptions(cols=80, rows=24))
    session.resize(50, 5)
    first.feed(b"old")
    first.end()
    await session.connect(second)
    second.feed(b"new")
    assert second.sizes == [(50, 5)]
    picture = (await session.display.screen.state()).snapshot
    assert (picture.cols, picture.rows) == (50, ("new", "", "", "", ""))


async def test_state_is_outdated_by_resize_while_it_is_taken(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=20, rows=4))
    channel.feed(b"text")
    screen, loop, write = session.display.screen, asyncio.get_running_loop(), Checkpoints.write_snapshot

    def resized_meanwhile(checkpoints: Checkpoints, replay: ScreenReplay) -> bool:
        loop.call_soon_threadsafe(session.resize, 30, 5)
        return write(checkpoints, replay)

    with monkeypatch.context() as context:
        context.setattr(screen_module, "CHECKPOINT_S", 0.0)
        context.setattr(Checkpoints, "write_snapshot", resized_meanwhile)
        state = await screen.state()
    assert (state.snapshot.cols, screen.is_outdated(state)) == (20, True)
    state = await screen.state()
    assert (state.snapshot.cols, screen.is_outdated(state)) == (30, False)


@pytest.mark.parametrize("closed", [False, True])
async def test_second_look_at_an_earlier_screen_reads_only_output_after_a_checkpoint(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    monkeypatch.setattr(screen_module, "CHECKPOINT_S", 0.0)
    monkeypatch.setattr(screen_replay, "_MAX_PIECE_BYTES", screen_replay._MIN_PIECE_BYTES)  # on a fast machine, too
    channel = MemoryChannel()
    session = await connect(channel, pty=PtyOptions(cols=80, rows=24))
    channel.feed(b"".join(b"\r\x1b[K[%d/40000] \x1b[1mlinking\x1b[m" % number for number in range(10_000)))
    if closed:
        await session.close()
    ranges: list[tuple[int, int]] = []
    read = OutputSource.read

    def recorded(source: OutputSource, begin: int, end: int) -> bytes:
        ranges.append((begin, end))
        return read(source, begin, end)

    screen, place = session.display.screen, 280_000
    first = await screen.state_at(place, attributes=True)
    monkeypatch.setattr(OutputSource, "read", recorded)
    assert await screen.state_at(place, attributes=True) == first
    assert ranges
    assert sum(end - begin for begin, end in ranges) < place / 4

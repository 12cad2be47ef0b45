"""What goes on when the server that held it was killed: the stream at any byte, size, modes, lock, quota and secrets."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from ptyctl.controller.recovery import adopt_session
from ptyctl.core.screen import ScreenSnapshot
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from ptyctl.session.transcript.raw_log import FIRST_EXTENT_BYTES
from ptyctl.session.transcript.recovery import recover
from tests.session.acting import connected, cut, read_from
from tests.session.left_behind import MIB, NONCES, killed, left_by, outputs
from transports.errors import ChannelEnded


@settings(max_examples=200, deadline=None)
@given(outputs, st.lists(st.integers(0, 1_000), max_size=8), st.integers(0, 1_000), st.integers(0, 8))
def test_killed_at_any_byte_the_spool_is_as_if_nothing_had_been(raw: bytes, places: list[int], at: int, flush_at: int) -> None:
    """Also within a character, a sequence or a mark: what was held back in the old process is held back in the new one."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as name:
            folder, kill = Path(name), at % (len(raw) + 1)
            whole, first = OutputStream(folder / "whole", MIB, 1 << 30), OutputStream(folder / "first", MIB, 1 << 30)
            for stream, data in ((whole, raw), (first, raw[:kill])):
                stream.begin_incarnation(1, NONCES)
                stream.transcript.row_interval_ms = 0
                for number, piece in enumerate(cut(data, places)):
                    stream.data_received(piece)
                    stream.flush() if number == flush_at else None
            left = killed(folder / "first", folder / "left")
            kept = await asyncio.to_thread(recover, left, {"bytes_received": kill}, 1 << 30, still_running=True)
            second = OutputStream(left, MIB, 1 << 30, kept)
            assert second.resume_incarnation() == NONCES
            for piece in cut(raw[kill:], places):
                second.data_received(piece)
            assert second.terminal_modes == whole.terminal_modes
            for stream in (whole, first, second):
                stream.channel_ended(ChannelEnded("end"))
            assert second.read(0, second.spool_end) == whole.read(0, whole.spool_end)
            assert second.prompts.within(0, MIB) == whole.prompts.within(0, MIB)
            for stream in (whole, first, second):
                stream.close()
            for file in ("output.raw", "output.spool", "output.prompts"):
                assert (left / file).read_bytes() == (folder / "whole" / file).read_bytes()

    with patch("time.time", return_value=1_700_000_000.0):  # what stands in for the time of a mark that brings none
        asyncio.run(run())


async def picture(session: Session) -> ScreenSnapshot:
    async with session.display.screen.current() as fold:
        return fold.model.snapshot()


async def taken_over(session: Session, tmp_path: Path, limits: Limits | None = None) -> tuple[Session, MemoryChannel]:
    """The session in another process, after its own was killed now; its program is the new channel."""
    sessions = await left_by(session, tmp_path)
    channel = MemoryChannel()
    return await adopt_session(sessions, session.session_id, limits or Limits(), channel), channel


async def test_the_size_that_it_has_come_to(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connected(tmp_path, channel)
    channel.feed(b"\x1b[1;1Hone")
    session.resize(100, 7)
    channel.feed(b"\x1b[7;98Htwo")
    shown = await picture(session)
    again, _ = await taken_over(session, tmp_path)
    assert (again.cols, again.rows) == (100, 7)
    assert await picture(again) == shown
    await again.close()


async def test_the_modes_that_a_program_has_set(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connected(tmp_path, channel)
    session.stream.transcript.row_interval_ms = 0
    channel.feed(b"\x1b[?1h")
    session.flush()
    channel.feed(b"a row behind it\r\n")
    again, _ = await taken_over(session, tmp_path)
    assert again.stream.terminal_modes == {1}
    await again.close()


async def test_past_the_quota_offsets_go_on(tmp_path: Path) -> None:
    limits = Limits(window_bytes=4096, quota_bytes=FIRST_EXTENT_BYTES)
    channel = MemoryChannel()
    session = await connected(tmp_path, channel, limits=limits)
    channel.feed(b"0123456789abcde\n" * 10_000)
    session.write_meta()
    raw, end = session.stream.raw_size, session.stream.spool_end
    again, channel = await taken_over(session, tmp_path, limits)
    assert (again.stream.spool_end, again.entry().bytes_received) == (end, raw)
    channel.feed(b"more")
    assert (await read_from(again.stream, cursor=str(end))).chunk == "more"
    assert (again.stream.raw_size, again.stream.normaliser.spool) == (raw + 4, end + 4)
    await again.close()


@pytest.mark.parametrize("jump_s", [-7200, 7200])
async def test_a_lock_keeps_its_time_whatever_the_wall_clock_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: int
) -> None:
    session = await connected(tmp_path, MemoryChannel())
    now = asyncio.get_running_loop().time()
    session.leases.acquire("one", 600.0, now)
    session.write_meta()
    there = time.time
    sessions = await left_by(session, tmp_path)
    monkeypatch.setattr(time, "time", lambda: there() + jump_s)
    again = await adopt_session(sessions, "s", Limits(), MemoryChannel())
    lease = again.lease()
    assert lease is not None
    assert lease.expires_at == pytest.approx(now + 600.0, abs=0.01)
    await again.close()


async def test_what_waited_to_be_masked_is_not_lost_when_another_is_to_go_on(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connected(tmp_path, channel)
    session.stream.mask_typed(b"secret")
    channel.feed(b"all the se")
    session.flush()
    again, channel = await taken_over(session, tmp_path)
    channel.feed(b"a\r\n")
    assert (await read_from(again.stream, cursor="0")).chunk == "all the sea\n"
    await again.close()

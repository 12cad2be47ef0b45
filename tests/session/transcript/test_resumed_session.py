"""A session whose program outlived its server continues: output, size, modes, lock, quota and secrets."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from ptyctl.controller.recovery import adopt_session
from ptyctl.core.screen import ScreenSnapshot
from ptyctl.session.clients import lock_owner
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from ptyctl.session.transcript.raw_log import FIRST_EXTENT_BYTES
from ptyctl.session.transcript.recovery import recover
from tests.session.crash_simulation import MIB, NONCES, copy_folder, simulate_crash, terminal_output
from tests.session.scripted_session import connect_session, read_from, split_at
from transports.errors import ChannelEnded


@given(terminal_output, st.lists(st.integers(0, 1_000), max_size=8), st.integers(0, 1_000), st.integers(0, 8))
def test_spool_after_crash_at_any_byte_equals_spool_without_crash(
    raw: bytes, places: list[int], at: int, flush_at: int
) -> None:
    """Also within a character, a sequence or a mark: output held back by the old process is held back by the new one."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as name:
            folder, kill = Path(name), at % (len(raw) + 1)
            whole, first = OutputStream(folder / "whole", MIB, 1 << 30), OutputStream(folder / "first", MIB, 1 << 30)
            for stream, data in ((whole, raw), (first, raw[:kill])):
                stream.begin_incarnation(1, NONCES)
                stream.transcript.row_interval_ms = 0
                for number, piece in enumerate(split_at(data, places)):
                    stream.data_received(piece)
                    stream.flush() if number == flush_at else None
            left = copy_folder(folder / "first", folder / "left")
            kept = await asyncio.to_thread(recover, left, {"bytes_received": kill}, 1 << 30, still_running=True)
            second = OutputStream(left, MIB, 1 << 30, kept)
            assert second.resume_incarnation() == NONCES
            for piece in split_at(raw[kill:], places):
                second.data_received(piece)
            assert second.terminal_modes == whole.terminal_modes
            assert (second.last_prompt and second.last_prompt.line) == (whole.last_prompt and whole.last_prompt.line)
            for stream in (whole, first, second):
                stream.channel_ended(ChannelEnded("end"))
            assert second.read(0, second.spool_end) == whole.read(0, whole.spool_end)
            assert second.prompts.within(0, MIB) == whole.prompts.within(0, MIB)
            for stream in (whole, first, second):
                stream.close()
            for file in ("output.raw", "output.spool", "output.prompts"):
                assert (left / file).read_bytes() == (folder / "whole" / file).read_bytes()

    with patch("time.time", return_value=1_700_000_000.0):  # the time of marks without one
        asyncio.run(run())


async def picture(session: Session) -> ScreenSnapshot:
    async with session.display.screen.current() as fold:
        return fold.model.snapshot()


async def adopt_copy(session: Session, tmp_path: Path, limits: Limits | None = None) -> tuple[Session, MemoryChannel]:
    """Adopt the session from a copy of its files; its program is the new channel."""
    sessions = await simulate_crash(session, tmp_path)
    channel = MemoryChannel()
    return await adopt_session(sessions, session.session_id, limits or Limits(), channel), channel


async def test_resumed_session_keeps_size_and_screen(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    channel.feed(b"\x1b[1;1Hone")
    session.resize(100, 7)
    channel.feed(b"\x1b[7;98Htwo")
    shown = await picture(session)
    again, _ = await adopt_copy(session, tmp_path)
    assert (again.cols, again.rows) == (100, 7)
    assert await picture(again) == shown
    await again.close()


async def test_resumed_session_keeps_terminal_modes(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    session.stream.transcript.row_interval_ms = 0
    channel.feed(b"\x1b[?1h")
    session.flush()
    channel.feed(b"a row behind it\r\n")
    again, _ = await adopt_copy(session, tmp_path)
    assert again.stream.terminal_modes == {1}
    await again.close()


@pytest.mark.parametrize("is_running", [False, True])
async def test_resumed_session_knows_text_that_the_shell_has_put_into_the_line(tmp_path: Path, is_running: bool) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    session.stream.transcript.row_interval_ms = 0
    channel.feed(b"\x1b]7717;%s;1;P;0,echo%%20;;/\x07$ echo " % session.shell_nonce.encode())
    session.flush()
    channel.feed(b"a row behind it")
    if is_running:
        channel.feed(b"\x1b]7717;%s;2;B;echo\x07" % session.shell_nonce.encode())
    again, _ = await adopt_copy(session, tmp_path)
    assert again.gate.unfinished_line.filled == (None if is_running else b"echo ")
    await again.close()


async def test_resumed_session_past_quota_continues_offsets(tmp_path: Path) -> None:
    limits = Limits(window_bytes=4096, quota_bytes=FIRST_EXTENT_BYTES)
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel, limits=limits)
    channel.feed(b"0123456789abcde\n" * 10_000)
    session.write_meta()
    raw, end = session.stream.raw_size, session.stream.spool_end
    again, channel = await adopt_copy(session, tmp_path, limits)
    assert (again.stream.spool_end, again.entry().bytes_received) == (end, raw)
    channel.feed(b"more")
    assert (await read_from(again.stream, cursor=str(end))).chunk == "more"
    assert (again.stream.raw_size, again.stream.normaliser.spool) == (raw + 4, end + 4)
    await again.close()


@pytest.mark.parametrize("jump_s", [-7200, 7200])
async def test_lock_after_wall_clock_jump_keeps_its_expiry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: int
) -> None:
    session = await connect_session(tmp_path, MemoryChannel())
    now = asyncio.get_running_loop().time()
    session.leases.acquire(lock_owner("one"), 600.0, now)
    session.write_meta()
    there = time.time
    sessions = await simulate_crash(session, tmp_path)
    monkeypatch.setattr(time, "time", lambda: there() + jump_s)
    again = await adopt_session(sessions, "s", Limits(), MemoryChannel())
    lease = again.lease()
    assert lease is not None
    assert lease.expires_at == pytest.approx(now + 600.0, abs=0.01)
    await again.close()


async def test_output_held_for_masking_is_not_lost_on_hand_off(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    session.stream.mask_typed(b"secret")
    channel.feed(b"all the se")
    session.flush()
    again, channel = await adopt_copy(session, tmp_path)
    channel.feed(b"a\r\n")
    assert (await read_from(again.stream, cursor="0")).chunk == "all the sea\n"
    await again.close()

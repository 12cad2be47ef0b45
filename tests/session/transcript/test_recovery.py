"""Recovery of a transcript: spool and prompt lines are rebuilt exactly, torn rows are cut."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.marks import Mark
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.transcript.raw_log import FIRST_EXTENT_BYTES, RawLog
from ptyctl.session.transcript.recovery import recover
from tests.session.crash_simulation import MIB, NONCES, copy_folder, terminal_output
from tests.session.scripted_session import split_at
from transports.errors import ChannelEnded


async def recover_folder(folder: Path, **meta: Any) -> Any:
    return await asyncio.to_thread(recover, folder, meta, 1 << 30)


def run_on_stream(work: Callable[[OutputStream, Path], Awaitable[None]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            stream = OutputStream(Path(folder) / "s", MIB, 1 << 30)
            await work(stream, Path(folder))
            stream.close()

    asyncio.run(run())


@given(terminal_output, terminal_output, st.lists(st.integers(0, 1_000), max_size=8), st.integers(0, 20), st.booleans())
def test_recovered_spool_and_prompts_equal_those_before_crash(
    first: bytes, second: bytes, places: list[int], flush_at: int, ended: bool
) -> None:
    async def work(stream: OutputStream, folder: Path) -> None:
        pieces = 0
        for number, raw in enumerate((first, second), 1):
            stream.begin_incarnation(number, NONCES)
            for piece in split_at(raw, places):
                stream.data_received(piece)
                pieces += 1
                stream.flush() if pieces == flush_at else None
            if number == 1 or ended:
                stream.channel_ended(ChannelEnded("end"))
        left = copy_folder(folder / "s", folder / "left")
        if not ended:
            stream.channel_ended(ChannelEnded("end"))
        kept = await recover_folder(left, bytes_received=len(first + second))
        try:
            assert kept.raw.read(0, kept.raw.size) == first + second
            assert (left / "output.raw").read_bytes() == first + second
            assert (left / "output.spool").read_bytes() == stream.read(0, stream.spool_end)
            assert kept.spool_size == stream.spool_end
            assert kept.prompts.within(0, MIB) == stream.prompts.within(0, MIB)
            assert kept.last_prompt == stream.last_prompt
            assert (kept.incarnation, kept.gap_at) == (2, None)
        finally:
            kept.raw.close()

    run_on_stream(work)


@given(
    terminal_output,
    terminal_output,
    st.lists(st.integers(0, 1_000), max_size=12),
    st.sets(st.integers(0, 20), max_size=4),
    st.data(),
)
def test_replay_from_any_resume_row_equals_replay_from_begin(
    first: bytes, second: bytes, places: list[int], flush_at: set[int], data: st.DataObject
) -> None:
    """The spool is truncated anywhere, so that any row can be the one to resume from."""

    async def work(stream: OutputStream, folder: Path) -> None:
        stream.transcript.row_interval_ms = 0
        pieces = 0
        for number, raw in enumerate((first, second), 1):
            stream.begin_incarnation(number, NONCES)
            for piece in split_at(raw, places):
                stream.data_received(piece)
                pieces += 1
                stream.flush() if pieces in flush_at else None
            stream.channel_ended(ChannelEnded("end")) if number == 1 else None
        left = copy_folder(folder / "s", folder / "left")
        from_start = copy_folder(left, folder / "from start")
        (from_start / "output.prompts").unlink()
        spool = left / "output.spool"
        os.truncate(spool, data.draw(st.integers(0, spool.stat().st_size)))
        ours, theirs = await recover_folder(left), await recover_folder(from_start)
        try:
            assert spool.read_bytes() == (from_start / "output.spool").read_bytes()
            assert (left / "output.prompts").read_bytes() == (from_start / "output.prompts").read_bytes()
            assert ours.prompts.packed() == theirs.prompts.packed()
            assert (ours.spool_size, ours.gap_at, ours.incarnation) == (theirs.spool_size, None, 2)
            assert stored_part(ours.last_prompt) == stored_part(theirs.last_prompt)
        finally:
            ours.raw.close()
            theirs.raw.close()

    run_on_stream(work)


def stored_part(mark: Mark | None) -> tuple[int | None, bytes | None] | None:
    """Return what a prompt line in the spool holds of its mark."""
    return mark and (mark.status, mark.cwd)


async def test_large_transcript_is_replayed_from_last_resume_row_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = OutputStream(tmp_path / "s", MIB, 1 << 30)
    stream.transcript.row_interval_ms = 0
    stream.begin_incarnation(1, NONCES)
    for _ in range(64):
        stream.data_received(b"text\r\n" * 10_000)
    stream.flush()
    left = copy_folder(tmp_path / "s", tmp_path / "left")
    stream.close()
    read: list[int] = []
    whole = RawLog.read
    monkeypatch.setattr(RawLog, "read", lambda log, begin, end: read.append(end - begin) or whole(log, begin, end))
    (await recover_folder(left)).raw.close()
    assert (left / "output.spool").read_bytes() == b"text\n" * 640_000
    assert sum(read) <= 64 * 60_000 / 9  # one row more: the spool must have the text of output.raw


@pytest.mark.parametrize("before_s", [10, 3600])
async def test_spool_possibly_lost_in_power_failure_is_rebuilt(tmp_path: Path, before_s: int) -> None:
    """Data written shortly before the machine started may be zeros; older data is on disk."""
    stream = OutputStream(tmp_path / "s", MIB, 1 << 30)
    stream.transcript.row_interval_ms = 0
    stream.begin_incarnation(1, NONCES)
    for _ in range(3):
        stream.data_received(b"text\r\n" * 10_000)
    stream.close()
    spool = tmp_path / "s/output.spool"
    spool.write_bytes(b"\0" * 40_000 + spool.read_bytes()[40_000:])
    written = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - before_s
    os.utime(spool, (written, written))
    (await recover_folder(tmp_path / "s")).raw.close()
    assert (b"\0" in spool.read_bytes()) is (before_s > 60)


@pytest.mark.parametrize("damage", [b"garbage\n" * 9, b"", b"garbage\n" * 100_000])
async def test_damaged_spool_is_rebuilt(tmp_path: Path, damage: bytes) -> None:
    stream = OutputStream(tmp_path / "s", MIB, 1 << 30)
    stream.begin_incarnation(1, NONCES)
    stream.data_received(b"one\r\ntwo\r\n" * 50_000)
    stream.close()
    (tmp_path / "s/output.spool").write_bytes(b"one\ntwo\n" + damage)
    (await recover_folder(tmp_path / "s")).raw.close()
    assert (tmp_path / "s/output.spool").read_bytes() == b"one\ntwo\n" * 50_000


@pytest.mark.parametrize("counted", [True, False])
async def test_zeros_at_end_are_kept_only_if_counted(tmp_path: Path, counted: bool) -> None:
    """Zeros counted in output.end are output. Uncounted bytes count up to the last one that is not zero."""
    stream = OutputStream(tmp_path / "s", MIB, 1 << 30)
    stream.data_received(b"x" + b"\0" * 10)
    left = copy_folder(tmp_path / "s", tmp_path / "left")
    stream.close()
    assert not (tmp_path / "s/output.end").exists()
    assert (left / "output.raw").stat().st_size == FIRST_EXTENT_BYTES
    if not counted:
        (left / "output.end").write_bytes(bytes(8))
    kept = await recover_folder(left)
    kept.raw.close()
    assert (left / "output.raw").read_bytes() == b"x" + b"\0" * (10 if counted else 0)
    assert (tmp_path / "s/output.raw").read_bytes() == b"x" + b"\0" * 10


async def test_torn_last_lines_are_cut(tmp_path: Path) -> None:
    stream = OutputStream(tmp_path / "s", MIB, 1 << 30)
    stream.begin_incarnation(1, NONCES)
    stream.data_received(b"text")
    stream.close()
    whole = (tmp_path / "s/timeline.jsonl").read_bytes()
    for name in ("timeline.jsonl", "blocks.jsonl", "events.jsonl", "input.jsonl"):
        with (tmp_path / "s" / name).open("ab") as file:
            file.write(b'{"raw": 12, "sp')
    (await recover_folder(tmp_path / "s")).raw.close()
    assert (tmp_path / "s/timeline.jsonl").read_bytes() == whole
    assert (tmp_path / "s/blocks.jsonl").read_bytes() == b""


@pytest.mark.parametrize("step", ["open", "posix_fallocate", "mmap", "read_blocks", "_replay", "_recover_blocks"])
async def test_failed_recovery_keeps_offsets_and_zeros_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The output of the first session ends with zeros; the quota of the second one is full, so output.end has its sizes."""
    whole, full = OutputStream(tmp_path / "whole", MIB, 1 << 30), OutputStream(tmp_path / "full", MIB, FIRST_EXTENT_BYTES)
    whole.data_received(b"text" + b"\0" * 10)
    for _ in range(10):
        full.data_received(b"text\r\n" * 10_000)
    size, spool_size = full.raw_size, full.spool_end
    left = [copy_folder(tmp_path / name, tmp_path / f"left {name}") for name in ("whole", "full")]
    whole.close()
    full.close()
    with monkeypatch.context() as patches:
        if step == "open":
            real = os.open
            patches.setattr(os, "open", lambda path, *rest: fail() if str(path).endswith("output.end") else real(path, *rest))
        elif step in ("posix_fallocate", "mmap"):  # of output.end; a recovery extends no file
            patches.setattr(f"{'mmap' if step == 'mmap' else 'os'}.{step}", fail)
        else:
            patches.setattr(f"ptyctl.session.transcript.recovery.{step}", fail)
        for folder in left:
            with pytest.raises(OSError, match="Input/output error"):
                await recover_folder(folder)
    first, second = [await recover_folder(folder) for folder in left]
    assert (first.raw.size, second.raw.size, second.spool_size) == (14, size, spool_size)
    for kept in (first, second):
        kept.raw.close()
    assert (left[0] / "output.raw").read_bytes() == b"text" + b"\0" * 10
    assert [(folder / "output.end").exists() for folder in left] == [False, True]


def fail(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.EIO, os.strerror(errno.EIO))

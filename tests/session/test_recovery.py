"""What a killed server left is served as it was: the same spool, the same prompts, nothing invented, and it can go on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.controller.recovered import recovered
from ptyctl.core.marks import Mark
from ptyctl.session.line.stream import Stream
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from ptyctl.session.transcript.raw_log import FIRST_EXTENT_BYTES, RawLog
from ptyctl.session.transcript.recovery import Kept, recover
from tests.session.acting import connected, cut, read_from, run_in, write_to
from transports.channel import Pty
from transports.errors import ChannelEnded
from transports.local import LocalChannel, LocalOptions
from transports.memory import MemoryChannel

MIB = 1 << 20
NONCES = ("aa", "bb")


def mark(nonce: str, counter: int, rest: str) -> bytes:
    return f"\x1b]7717;{nonce};{counter};{rest}\x07".encode()


outputs = st.lists(
    st.one_of(
        st.sampled_from([b"\r", b"\r\n", b"text\r\n", b"text", b"\x1b[1m", b"\x1b]0;t", b"\x07", "é€".encode(), b"\0\0"]),
        st.integers(1, 9).map(lambda counter: mark("bb", counter, "P;0;1700000000000;/tmp")),
        st.integers(1, 9).map(lambda counter: mark("aa", counter, "P;1;;/a%20b")),
        st.integers(1, 9).map(lambda counter: mark("xx", counter, "P;0;;/")),
    ),
    max_size=25,
).map(b"".join)


def killed(folder: Path, to: Path) -> Path:
    """A copy of what is on disk now: what a kill -9 would leave."""
    shutil.copytree(folder, to)
    return to


async def mended(folder: Path, **meta: Any) -> Kept:
    return await asyncio.to_thread(recover, folder, meta, 1 << 30)


def on_a_stream(work: Callable[[Stream, Path], Awaitable[None]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            stream = Stream(Path(folder) / "s", MIB, 1 << 30)
            await work(stream, Path(folder))
            stream.close()

    asyncio.run(run())


@settings(max_examples=150, deadline=None)
@given(outputs, outputs, st.lists(st.integers(0, 1_000), max_size=8), st.integers(0, 20), st.booleans())
def test_the_spool_and_the_prompts_are_what_the_server_had(
    first: bytes, second: bytes, places: list[int], flush_at: int, ended: bool
) -> None:
    async def work(stream: Stream, folder: Path) -> None:
        pieces = 0
        for number, raw in enumerate((first, second), 1):
            stream.begin_incarnation(number, NONCES)
            for piece in cut(raw, places):
                stream.data_received(piece)
                pieces += 1
                stream.flush() if pieces == flush_at else None
            if number == 1 or ended:
                stream.channel_ended(ChannelEnded("end"))
        left = killed(folder / "s", folder / "left")
        if not ended:
            stream.channel_ended(ChannelEnded("end"))
        kept = await mended(left, bytes_received=len(first + second))
        try:
            assert kept.raw.read(0, kept.raw.size) == first + second
            assert (left / "output.raw").read_bytes() == first + second
            assert (left / "output.spool").read_bytes() == stream.read(0, stream.end)
            assert kept.spool == stream.end
            assert kept.prompts.within(0, MIB) == stream.prompts.within(0, MIB)
            assert kept.last_prompt == stream.last_prompt
            assert (kept.incarnation, kept.gap_at) == (2, None)
        finally:
            kept.raw.close()

    on_a_stream(work)


@settings(max_examples=150, deadline=None)
@given(outputs, outputs, st.lists(st.integers(0, 1_000), max_size=12), st.sets(st.integers(0, 20), max_size=4), st.data())
def test_gone_on_from_any_row_it_is_as_from_the_start(
    first: bytes, second: bytes, places: list[int], flush_at: set[int], data: st.DataObject
) -> None:
    """Each row that can be resumed is: the spool on disk ends behind it, wherever that is."""

    async def work(stream: Stream, folder: Path) -> None:
        stream.transcript.row_interval_ms = 0
        pieces = 0
        for number, raw in enumerate((first, second), 1):
            stream.begin_incarnation(number, NONCES)
            for piece in cut(raw, places):
                stream.data_received(piece)
                pieces += 1
                stream.flush() if pieces in flush_at else None
            stream.channel_ended(ChannelEnded("end")) if number == 1 else None
        left = killed(folder / "s", folder / "left")
        from_start = killed(left, folder / "from start")
        (from_start / "output.prompts").unlink()
        spool = left / "output.spool"
        os.truncate(spool, data.draw(st.integers(0, spool.stat().st_size)))
        ours, theirs = await mended(left), await mended(from_start)
        try:
            assert spool.read_bytes() == (from_start / "output.spool").read_bytes()
            assert (left / "output.prompts").read_bytes() == (from_start / "output.prompts").read_bytes()
            assert ours.prompts.packed() == theirs.prompts.packed()
            assert (ours.spool, ours.gap_at, ours.incarnation) == (theirs.spool, None, 2)
            assert said(ours.last_prompt) == said(theirs.last_prompt)
        finally:
            ours.raw.close()
            theirs.raw.close()

    on_a_stream(work)


def said(mark: Mark | None) -> tuple[int | None, bytes | None] | None:
    """What a prompt's line in the spool keeps of its mark."""
    return mark and (mark.status, mark.cwd)


async def test_a_large_transcript_is_not_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(tmp_path / "s", MIB, 1 << 30)
    stream.transcript.row_interval_ms = 0
    stream.begin_incarnation(1, NONCES)
    for _ in range(64):
        stream.data_received(b"text\r\n" * 10_000)
    stream.flush()
    left = killed(tmp_path / "s", tmp_path / "left")
    stream.close()
    read: list[int] = []
    whole = RawLog.read
    monkeypatch.setattr(RawLog, "read", lambda log, begin, end: read.append(end - begin) or whole(log, begin, end))
    (await mended(left)).raw.close()
    assert (left / "output.spool").read_bytes() == b"text\n" * 640_000
    assert sum(read) <= 64 * 60_000 / 10


@pytest.mark.parametrize("before_s", [10, 3600])
async def test_what_a_power_cut_may_have_taken_is_made_again(tmp_path: Path, before_s: int) -> None:
    """The last that was written before the machine's start may be zeros; what is older was on disk."""
    stream = Stream(tmp_path / "s", MIB, 1 << 30)
    stream.transcript.row_interval_ms = 0
    stream.begin_incarnation(1, NONCES)
    for _ in range(3):
        stream.data_received(b"text\r\n" * 10_000)
    stream.close()
    spool = tmp_path / "s/output.spool"
    spool.write_bytes(b"\0" * 60_000 + spool.read_bytes()[60_000:])
    written = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - before_s
    os.utime(spool, (written, written))
    (await mended(tmp_path / "s")).raw.close()
    assert (b"\0" in spool.read_bytes()) is (before_s > 60)


@pytest.mark.parametrize("damage", [b"garbage\n" * 9, b""])
async def test_a_spool_that_is_not_what_it_was_is_made_again(tmp_path: Path, damage: bytes) -> None:
    stream = Stream(tmp_path / "s", MIB, 1 << 30)
    stream.begin_incarnation(1, NONCES)
    stream.data_received(b"one\r\ntwo\r\n" * 50_000)
    stream.close()
    (tmp_path / "s/output.spool").write_bytes(b"one\ntwo\n" + damage)
    (await mended(tmp_path / "s")).raw.close()
    assert (tmp_path / "s/output.spool").read_bytes() == b"one\ntwo\n" * 50_000


@pytest.mark.parametrize("counted", [True, False])
async def test_zeros_at_the_very_end(tmp_path: Path, counted: bool) -> None:
    """They stay where output.end counts them; what a server was killed over before it counted goes up to the last other."""
    stream = Stream(tmp_path / "s", MIB, 1 << 30)
    stream.data_received(b"x" + b"\0" * 10)
    left = killed(tmp_path / "s", tmp_path / "left")
    stream.close()
    assert not (tmp_path / "s/output.end").exists()
    assert (left / "output.raw").stat().st_size == FIRST_EXTENT_BYTES
    if not counted:
        (left / "output.end").write_bytes(bytes(8))
    kept = await mended(left)
    kept.raw.close()
    assert (left / "output.raw").read_bytes() == b"x" + b"\0" * (10 if counted else 0)
    assert (tmp_path / "s/output.raw").read_bytes() == b"x" + b"\0" * 10


async def test_torn_last_lines_are_cut(tmp_path: Path) -> None:
    stream = Stream(tmp_path / "s", MIB, 1 << 30)
    stream.begin_incarnation(1, NONCES)
    stream.data_received(b"text")
    stream.close()
    whole = (tmp_path / "s/timeline.jsonl").read_bytes()
    for name in ("timeline.jsonl", "blocks.jsonl", "events.jsonl", "input.jsonl"):
        with (tmp_path / "s" / name).open("ab") as file:
            file.write(b'{"raw": 12, "sp')
    (await mended(tmp_path / "s")).raw.close()
    assert (tmp_path / "s/timeline.jsonl").read_bytes() == whole
    assert (tmp_path / "s/blocks.jsonl").read_bytes() == b""


async def left_by(session: Session, tmp_path: Path) -> Path:
    """The sessions folder that a server leaves which is killed now."""
    await asyncio.sleep(0)
    (tmp_path / "left").mkdir(mode=0o700)
    killed(session.stream.transcript.folder, tmp_path / "left" / session.session_id)
    await session.close(force=True)
    return tmp_path / "left"


async def found(sessions: Path, limits: Limits | None = None) -> Session:
    session = await recovered(sessions, "s", limits or Limits(), hold=True)
    assert session is not None
    return session


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def test_a_lost_session_is_read_and_goes_on(tmp_path: Path) -> None:
    channel = MemoryChannel(lambda data: data)
    session = await connected(tmp_path, channel, platform="cisco_ios")
    channel.feed(b"hello\r\nold> ")
    asyncio.get_running_loop().create_task(run_in(session, "show it"))
    assert (await read_from(session.stream, cursor="0", until_regex="show it", timeout_ms=20_000)).matched
    end = session.stream.end
    sessions = await left_by(session, tmp_path)

    lost = await found(sessions)
    assert (lost.state, lost.incarnation, lost.spec) == ("lost", 1, session.spec)
    reply = await read_from(lost.stream, cursor="0")
    assert ((reply.chunk or "")[:11], reply.eof, reply.next_cursor) == ("hello\nold> ", True, str(lost.stream.end))
    assert lost.stream.end == end + 1  # the CR that was open
    with pytest.raises(PtyctlError) as refused:
        await write_to(lost, data="x")
    assert refused.value.code is ErrorCode.REMOTE_CLOSED
    assert "open again" in refused.value.message
    (block,) = lost.blocks.all()
    assert (block.status, block.cmd, block.reason) == ("cancelled", "show it", "the server ended while it ran")
    folder = lost.stream.transcript.folder
    events = [row["type"] for row in lines(folder / "events.jsonl")]
    assert (events[0], events[-1], len(events)) == ("agent_block_begin", "agent_block_end", 3)

    again = MemoryChannel()
    await lost.connect(again)
    assert (lost.state, lost.incarnation) == ("open", 2)
    again.feed(b"new> " + b"\0" * 3)
    reply = await read_from(lost.stream, cursor=str(end))
    assert reply.chunk == "\nnew> "
    with pytest.raises(PtyctlError):
        lost.runs.find(block.block_id)
    assert lost.blocks.last_seq() == 1
    await lost.close()
    raw = (folder / "output.raw").read_bytes()
    assert raw.startswith(b"hello\r\nold> show it")
    assert raw.endswith(b"new> \0\0\0")
    assert [row["incarnation"] for row in lines(folder / "timeline.jsonl") if row["kind"] == "incarnation"] == [1, 2]

    closed = await found(sessions)
    assert (closed.state, closed.closed_why, closed.incarnation) == ("closed", "on request", 2)
    assert (await read_from(closed.stream, mode="tail")).chunk == "hello\nold> show it\nnew> "
    assert (folder / "output.raw").read_bytes() == raw
    with pytest.raises(PtyctlError) as refused:
        await write_to(closed, data="x")
    assert refused.value.code is ErrorCode.ALREADY_CLOSED
    await closed.close()


async def test_recovering_twice_changes_nothing(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connected(tmp_path, channel)
    channel.feed(b"one\r\n\x1b[3")
    folder = await left_by(session, tmp_path) / "s"
    (await found(folder.parent)).let_go()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    (await found(folder.parent)).let_go()
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


async def test_missing_files_of_blocks_are_written(tmp_path: Path) -> None:
    channel = MemoryChannel(lambda data: data[:-1] + b"\r\nit is so\r\nold> ")
    session = await connected(tmp_path, channel, platform="cisco_ios")
    channel.feed(b"old> ")
    done = await run_in(session, "show it")
    sessions = await left_by(session, tmp_path)
    shutil.rmtree(sessions / "s/blocks")
    lost = await found(sessions)
    (block,) = lost.blocks.all()
    assert block.block_id == done.block_id
    assert b"it is so" in (sessions / f"s/blocks/{block.block_id}.out").read_bytes()
    (sessions / f"s/blocks/{block.block_id}.out").write_bytes(b"torn")
    await lost.close()
    again = await found(sessions)
    assert b"it is so" in (sessions / f"s/blocks/{block.block_id}.out").read_bytes()
    await again.close()


async def test_cursors_stay_behind_what_was_not_kept(tmp_path: Path) -> None:
    limits = Limits(window_bytes=4096, quota_bytes=FIRST_EXTENT_BYTES)
    channel = MemoryChannel()
    session = await connected(tmp_path, channel, limits=limits)
    channel.feed(b"0123456789abcde\n" * 10_000)
    end = session.stream.end
    session.write_meta()
    sessions = await left_by(session, tmp_path)
    lost = await found(sessions, limits)
    assert lost.stream.end == end
    assert (sessions / "s/output.raw").stat().st_size == FIRST_EXTENT_BYTES
    again = MemoryChannel()
    await lost.connect(again)
    again.feed(b"more")
    assert (await read_from(lost.stream, cursor=str(end))).chunk == "more"
    assert lost.stream.transcript.gap_at == FIRST_EXTENT_BYTES
    await lost.close()


async def test_the_quota_is_reached_in_mid_block(tmp_path: Path) -> None:
    limits = Limits(quota_bytes=FIRST_EXTENT_BYTES)
    bash = LocalChannel(LocalOptions(("bash", "--norc", "--noprofile")), Pty())
    session = await connected(tmp_path, bash, limits=limits, protocol="local", host=None, program="bash")
    first = await run_in(session, "echo one")
    done = await run_in(session, "seq 100000 200000; (exit 5)", max_output_bytes=1000)
    assert (done.exit_code, done.stdout[-7:]) == (5, "200000\n")
    assert "gap" in (done.notices or [""])[0]
    asyncio.get_running_loop().create_task(run_in(session, "echo begun; sleep 60"))
    assert (await read_from(session.stream, cursor=done.next_cursor, until_regex="\nbegun\n", timeout_ms=20_000)).matched
    end = session.stream.end
    lost = await found(await left_by(session, tmp_path), limits)
    blocks = lost.blocks.all()
    assert [(block.status, block.exit_code) for block in blocks] == [("completed", 0), ("completed", 5), ("cancelled", None)]
    assert (lost.state, lost.stream.transcript.raw.kept) == ("lost", FIRST_EXTENT_BYTES)
    assert blocks[2].spool_begin <= lost.stream.end <= end
    assert Path(blocks[0].output_path).read_bytes() == b"one\r\n"
    kept = Path(blocks[1].output_path).read_bytes()
    assert kept == b"".join(b"%d\r\n" % number for number in range(100_000, 110_000))[: len(kept)]
    assert first.block_id == blocks[0].block_id
    await lost.close()


async def test_what_is_alive_elsewhere_is_left_alone(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connected(tmp_path, channel)
    channel.feed(b"text")
    size = (tmp_path / "s/output.raw").stat().st_size
    with pytest.raises(PtyctlError) as refused:
        await recovered(tmp_path, "s", Limits(), hold=False)
    assert refused.value.code is ErrorCode.BUSY
    assert "another server" in refused.value.message
    assert (tmp_path / "s/output.raw").stat().st_size == size
    await session.close()
    await (await found(tmp_path)).close()


async def test_folders_that_are_not_ours_alone_are_refused(tmp_path: Path) -> None:
    session = await connected(tmp_path, MemoryChannel())
    await session.close()
    for path in (tmp_path / "s", tmp_path / "s/output.raw"):
        mode = path.stat().st_mode
        path.chmod(mode | 0o040)
        with pytest.raises(PtyctlError) as refused:
            await recovered(tmp_path, "s", Limits(), hold=False)
        assert refused.value.code is ErrorCode.POLICY_DENIED
        path.chmod(mode)
    (tmp_path / "link").symlink_to(tmp_path / "s")
    with pytest.raises(PtyctlError) as refused:
        await recovered(tmp_path, "link", Limits(), hold=False)
    assert refused.value.code is ErrorCode.POLICY_DENIED


@pytest.mark.parametrize("session_id", ["nobody", "..", ".", "s/../s", "/etc", "s\0", "", "x" * 300])
async def test_no_id_leads_elsewhere(tmp_path: Path, session_id: str) -> None:
    await (await connected(tmp_path, MemoryChannel())).close()
    assert await recovered(tmp_path, session_id, Limits(), hold=True) is None


async def test_a_meta_that_says_nothing(tmp_path: Path) -> None:
    await (await connected(tmp_path, MemoryChannel())).close()
    (tmp_path / "s/meta.json").write_text("{}")
    with pytest.raises(PtyctlError) as refused:
        await recovered(tmp_path, "s", Limits(), hold=False)
    assert refused.value.code is ErrorCode.IO_ERROR


async def test_what_was_told_is_not_told_again(tmp_path: Path) -> None:
    """Of each block one begin and one end, wherever the events of a killed server broke off."""
    channel = MemoryChannel(lambda data: data[:-1] + b"\r\nit is so\r\nold> ")
    session = await connected(tmp_path, channel, platform="cisco_ios")
    channel.feed(b"old> ")
    for _ in range(3):
        await run_in(session, "show it")
    await session.close()
    events = (tmp_path / "s/events.jsonl").read_bytes().splitlines(keepends=True)
    for number in range(len(events) + 1):
        (tmp_path / "s/events.jsonl").write_bytes(b"".join(events[:number]))
        (await found(tmp_path)).let_go()
        rows = lines(tmp_path / "s/events.jsonl")
        told = [row["type"] for row in rows if row["type"] != "agent_block_delta"]
        assert told == ["agent_block_begin", "agent_block_end"] * 3
        assert len({row["block"]["block_id"] for row in rows if "block" in row}) == 3


async def test_nobody_waits_for_large_files_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel(lambda data: data[:-1] + b"\r\nit is so\r\nold> ")
    session = await connected(tmp_path, channel, platform="cisco_ios")
    channel.feed(b"old> ")
    done = await run_in(session, "show it")
    await session.close()
    path = tmp_path / f"s/blocks/{done.block_id}.out"
    path.unlink()
    monkeypatch.setattr("ptyctl.session.transcript.recovery.AT_ONCE_BYTES", 0)
    await found(tmp_path)
    await asyncio.get_running_loop().shutdown_default_executor()
    assert b"it is so" in path.read_bytes()

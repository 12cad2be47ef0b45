"""Recovery of a session: it is readable as it was, its events are written once, and it can be connected again."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.errors import ErrorCode, NextStep, PtyctlError
from ptyctl.controller.recovery import restore_session
from ptyctl.session.spec import Limits
from ptyctl.session.transcript.raw_log import FIRST_EXTENT_BYTES
from ptyctl.session.transcript.recording_reader import read_recording
from tests.session.crash_simulation import restore, simulate_crash
from tests.session.scripted_session import connect_session, read_from, run_command, write_to
from transports.channel import Pty
from transports.local import LocalChannel, LocalOptions


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def test_lost_session_is_readable_and_can_be_connected_again(tmp_path: Path) -> None:
    channel = MemoryChannel(lambda data: data)
    session = await connect_session(tmp_path, channel, platform="cisco_ios")
    channel.feed(b"hello\r\nold> ")
    asyncio.get_running_loop().create_task(run_command(session, "show it"))
    assert (await read_from(session.stream, cursor="0", until_regex="show it", timeout_ms=20_000)).matched
    end = session.stream.spool_end
    sessions = await simulate_crash(session, tmp_path)

    lost = await restore(sessions)
    assert (lost.state, lost.incarnation, lost.spec) == ("lost", 1, session.spec)
    reply = await read_from(lost.stream, cursor="0")
    assert ((reply.chunk or "")[:11], reply.eof, reply.next_cursor) == ("hello\nold> ", True, str(lost.stream.spool_end))
    assert lost.stream.spool_end == end + 1  # the pending CR
    with pytest.raises(PtyctlError) as refused:
        await write_to(lost, data="x")
    assert refused.value.code is ErrorCode.REMOTE_CLOSED
    assert refused.value.hint == NextStep.OPEN_SESSION
    (block,) = lost.blocks.all()
    assert (block.status, block.cmd, block.reason) == ("cancelled", "show it", "the server ended while it ran")
    folder = lost.stream.folder
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

    closed = await restore(sessions)
    assert (closed.state, closed.closed_why, closed.incarnation) == ("closed", "on request", 2)
    assert (await read_from(closed.stream, mode="tail")).chunk == "hello\nold> show it\nnew> "
    assert (folder / "output.raw").read_bytes() == raw
    with pytest.raises(PtyctlError) as refused:
        await write_to(closed, data="x")
    assert refused.value.code is ErrorCode.ALREADY_CLOSED
    await closed.close()


async def test_second_recovery_changes_no_file(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    channel.feed(b"one\r\n\x1b[3")
    folder = await simulate_crash(session, tmp_path) / "s"
    (await restore(folder.parent)).release_files()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    (await restore(folder.parent)).release_files()
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


async def test_block_outputs_are_written_on_request(tmp_path: Path) -> None:
    channel = MemoryChannel(lambda data: data[:-1] + b"\r\nit is so\r\nold> ")
    session = await connect_session(tmp_path, channel, platform="cisco_ios")
    channel.feed(b"old> ")
    done = await run_command(session, "show it")
    sessions = await simulate_crash(session, tmp_path)
    shutil.rmtree(sessions / "s/blocks")
    lost = await restore(sessions)
    (block,) = lost.blocks.all()
    assert block.block_id == done.block_id
    output = sessions / f"s/blocks/{block.block_id}.out"
    assert not output.exists()
    for size in (1, None):
        await lost.blocks.write_outputs([block], size)
        assert output.exists() == (size is None)
    assert b"it is so" in output.read_bytes()
    output.write_bytes(b"torn")
    await lost.blocks.write_outputs([block])
    assert b"it is so" in output.read_bytes()
    await lost.close()


async def test_offsets_after_quota_are_not_reused(tmp_path: Path) -> None:
    limits = Limits(window_bytes=4096, quota_bytes=FIRST_EXTENT_BYTES)
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel, limits=limits)
    channel.feed(b"0123456789abcde\n" * 10_000)
    end = session.stream.spool_end
    session.write_meta()
    sessions = await simulate_crash(session, tmp_path)
    lost = await restore(sessions, limits)
    assert lost.stream.spool_end == end
    size = (sessions / "s/output.raw").stat().st_size
    assert FIRST_EXTENT_BYTES // 4 <= size <= FIRST_EXTENT_BYTES
    again = MemoryChannel()
    await lost.connect(again)
    again.feed(b"more")
    assert (await read_from(lost.stream, cursor=str(end))).chunk == "more"
    assert lost.stream.transcript.gap_at == size
    await lost.close()


async def test_quota_counts_all_files_of_the_session(tmp_path: Path) -> None:
    quota = 8 * 1024 * 1024
    channel = MemoryChannel(lambda data: data[:-1] + b"\r\n" + b"a line of output\r\n" * 100_000 + b"old> ")
    session = await connect_session(tmp_path, channel, limits=Limits(quota_bytes=quota), platform="cisco_ios")
    channel.feed(b"old> ")
    await run_command(session, "show it")
    await session.blocks.write_outputs(session.blocks.all())
    for _ in range(20):
        channel.feed(b"more of it\r\n" * 50_000)
    await session.close()
    files = [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
    sizes = {path.name: path.stat().st_size for path in files}
    assert 0.8 * quota < sum(sizes.values()) < quota + 256 * 1024, sizes
    assert session.entry().disk_bytes == sum(sizes.values())
    assert sizes[f"{session.blocks.all()[0].block_id}.out"] > 1_500_000


async def test_quota_reached_during_block_keeps_exit_code_and_partial_output(tmp_path: Path) -> None:
    limits = Limits(quota_bytes=FIRST_EXTENT_BYTES)
    bash = LocalChannel(LocalOptions(("bash", "--norc", "--noprofile")), Pty())
    session = await connect_session(tmp_path, bash, limits=limits, protocol="local", host=None, program="bash")
    first = await run_command(session, "echo one")
    done = await run_command(session, "seq 100000 200000; (exit 5)", max_output_bytes=1000)
    assert (done.exit_code, done.stdout[-7:]) == (5, "200000\n")
    assert "gap" in (done.notices or [""])[0]
    asyncio.get_running_loop().create_task(run_command(session, "echo begun; sleep 60"))
    assert (await read_from(session.stream, cursor=done.next_cursor, until_regex="\nbegun\n", timeout_ms=20_000)).matched
    end = session.stream.spool_end
    lost = await restore(await simulate_crash(session, tmp_path), limits)
    blocks = lost.blocks.all()
    assert [(block.status, block.exit_code) for block in blocks] == [("completed", 0), ("completed", 5), ("cancelled", None)]
    assert lost.state == "lost"
    assert FIRST_EXTENT_BYTES // 4 <= lost.stream.raw_kept <= FIRST_EXTENT_BYTES
    assert blocks[2].spool_begin <= lost.stream.spool_end <= end
    await session.blocks.write_outputs(blocks)
    assert Path(blocks[0].output_path).read_bytes() == b"one\r\n"
    kept = Path(blocks[1].output_path).read_bytes()
    assert kept == b"".join(b"%d\r\n" % number for number in range(100_000, 110_000))[: len(kept)]
    assert first.block_id == blocks[0].block_id
    await lost.close()


async def test_session_held_by_another_server_is_busy_and_unchanged(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    channel.feed(b"text")
    size = (tmp_path / "s/output.raw").stat().st_size
    with pytest.raises(PtyctlError) as refused:
        await restore_session(tmp_path, "s", Limits(), hold=False)
    assert refused.value.code is ErrorCode.BUSY
    assert "another server" in refused.value.message
    assert (tmp_path / "s/output.raw").stat().st_size == size
    await session.close()
    await (await restore(tmp_path)).close()


async def test_folder_accessible_to_others_or_symlink_is_policy_denied(tmp_path: Path) -> None:
    session = await connect_session(tmp_path, MemoryChannel())
    await session.close()
    for path in (tmp_path / "s", tmp_path / "s/output.raw"):
        mode = path.stat().st_mode
        path.chmod(mode | 0o040)
        with pytest.raises(PtyctlError) as refused:
            await restore_session(tmp_path, "s", Limits(), hold=False)
        assert refused.value.code is ErrorCode.POLICY_DENIED
        path.chmod(mode)
    (tmp_path / "link").symlink_to(tmp_path / "s")
    with pytest.raises(PtyctlError) as refused:
        await restore_session(tmp_path, "link", Limits(), hold=False)
    assert refused.value.code is ErrorCode.POLICY_DENIED


@pytest.mark.parametrize("session_id", ["nobody", "..", ".", "s/../s", "/etc", "s\0", "", "x" * 300])
async def test_id_outside_sessions_folder_is_not_found(tmp_path: Path, session_id: str) -> None:
    await (await connect_session(tmp_path, MemoryChannel())).close()
    assert await restore_session(tmp_path, session_id, Limits(), hold=True) is None


@pytest.mark.parametrize("meta", ["", "{}", "[]"])
async def test_session_with_unusable_meta_is_lost_and_its_output_readable(tmp_path: Path, meta: str) -> None:
    session = await connect_session(tmp_path, channel := MemoryChannel())
    channel.feed(b"before\r\n")
    await session.close()
    (tmp_path / "s/meta.json").write_text(meta)
    restored = await restore_session(tmp_path, "s", Limits(), hold=False)
    assert restored is not None
    assert (restored.state, restored.stream.read(0, restored.stream.spool_end)) == ("lost", b"before\n")
    assert "meta.json was damaged" in (restored.entry().alarm or "")
    with pytest.raises(PtyctlError) as refused:
        read_recording(tmp_path / "s")
    assert refused.value.code is ErrorCode.IO_ERROR


async def test_events_cut_at_any_row_are_completed_without_repetition(tmp_path: Path) -> None:
    """Each block has one start and one end, wherever the event log was cut."""
    channel = MemoryChannel(lambda data: data[:-1] + b"\r\nit is so\r\nold> ")
    session = await connect_session(tmp_path, channel, platform="cisco_ios")
    channel.feed(b"old> ")
    for _ in range(3):
        await run_command(session, "show it")
    await session.close()
    events = (tmp_path / "s/events.jsonl").read_bytes().splitlines(keepends=True)
    for number in range(len(events) + 1):
        (tmp_path / "s/events.jsonl").write_bytes(b"".join(events[:number]))
        (await restore(tmp_path)).release_files()
        rows = lines(tmp_path / "s/events.jsonl")
        kinds = [row["type"] for row in rows if row["type"] != "agent_block_delta"]
        assert kinds == ["agent_block_begin", "agent_block_end"] * 3
        assert len({row["block"]["block_id"] for row in rows if "block" in row}) == 3

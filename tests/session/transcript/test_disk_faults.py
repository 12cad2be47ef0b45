"""Disk faults and killed servers: the session continues, and received output is not lost."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from fixtures.forked_process import ForkedProgram
from fixtures.memory_channel import MemoryChannel
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from ptyctl.session.transcript.raw_log import FIRST_EXTENT_BYTES
from tests.session.conftest import Connect
from tests.session.crash_simulation import restore, simulate_crash
from tests.session.scripted_session import connect_session, read_from, run_command

LINE = b"a line of output\r\n"
TEXT = b"a line of output\n"


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def rows_of(session: Session) -> list[dict[str, object]]:
    session.stream.flush()
    return [json.loads(line) for line in (session.stream.folder / "timeline.jsonl").read_text().splitlines()]


async def test_full_disk_at_next_extent_keeps_output_in_memory_and_notes_gap(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(LINE * 1_000)
    monkeypatch.setattr("os.posix_fallocate", full)
    for _ in range(20):
        channel.feed(LINE * 1_000)
    assert session.state == "open"
    assert session.stream.spool_end == len(TEXT) * 21_000
    assert session.stream.raw_kept == FIRST_EXTENT_BYTES
    reply = await read_from(session.stream, cursor=str(session.stream.spool_end - 17))
    assert reply.chunk == TEXT.decode()
    assert [notice[:3] for notice in session.notices.take("anybody") or []] == ["gap"]
    (gap,) = [row for row in rows_of(session) if row["kind"] == "gap"]
    assert gap["raw"] == FIRST_EXTENT_BYTES
    await session.close()
    assert (session.stream.folder / "output.raw").read_bytes() == (LINE * 21_000)[:FIRST_EXTENT_BYTES]


async def test_full_disk_at_first_extent_keeps_output_in_memory(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    monkeypatch.setattr("os.posix_fallocate", full)
    channel.feed(LINE)
    assert (await read_from(session.stream, cursor="0")).chunk == TEXT.decode()
    assert session.notices.take("anybody")
    await session.close()
    reply = await read_from(session.stream, cursor="0")
    assert (reply.chunk, reply.truncated, reply.dropped_bytes, reply.eof) == ("", True, len(TEXT), True)


async def test_full_disk_at_spool_keeps_raw_log_and_notes_gap(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(LINE)
    session.stream.flush()
    monkeypatch.setattr("os.write", full)
    channel.feed(LINE)
    session.stream.flush()
    channel.feed(LINE)
    monkeypatch.undo()
    channel.feed(LINE)
    assert (await read_from(session.stream, cursor="0")).chunk == TEXT.decode() * 4
    assert [notice[:3] for notice in session.notices.take("anybody") or []] == ["gap"]
    await session.close()
    assert (session.stream.folder / "output.spool").read_bytes() == TEXT  # complete up to its end
    assert (session.stream.folder / "output.raw").read_bytes() == LINE * 4  # the spool can be rebuilt from it
    reply = await read_from(session.stream, cursor="0")
    assert reply.chunk == TEXT.decode()
    reply = await read_from(session.stream, cursor=reply.next_cursor)
    assert (reply.chunk, reply.dropped_bytes, reply.eof) == ("", 3 * len(TEXT), True)
    tail = await read_from(session.stream, mode="tail")
    assert (tail.chunk, tail.truncated) == (TEXT.decode(), True)


async def test_full_disk_within_spool_batch_keeps_written_part(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    write, room, spool = os.write, [40], session.stream.transcript._spool._fd

    def nearly_full(fd: int, data: bytes) -> int:
        if fd != spool:
            return write(fd, data)
        size = min(len(data), room[0])
        room[0] -= size
        return write(fd, bytes(data[:size])) if size else full()

    monkeypatch.setattr("os.write", nearly_full)
    channel.feed(LINE * 10)
    session.stream.flush()
    assert session.stream.transcript.spool_persisted == 40
    monkeypatch.undo()
    await session.close()
    reply = await read_from(session.stream, cursor="0")
    assert (reply.chunk, reply.eof) == ((TEXT * 10)[:40].decode(), False)


async def test_full_disk_at_meta_keeps_previous_meta(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    before = (session.stream.folder / "meta.json").read_bytes()
    monkeypatch.setattr(Path, "write_text", full)
    channel.end()
    assert session.state == "eof"
    assert (session.stream.folder / "meta.json").read_bytes() == before


@pytest.mark.parametrize("name", ["output.raw", "output.end", "output.spool", "timeline.jsonl"])
async def test_open_without_file_descriptors_raises_io_error_and_closes_files(
    controller: LocalController, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    opened, closed, real_open, real_close = [], [], os.open, os.close

    def no_handles(path: str | Path, *rest: int, dir_fd: int | None = None) -> int:
        if str(path).endswith(name):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        opened.append(real_open(path, *rest, dir_fd=dir_fd))
        return opened[-1]

    def note_close(fd: int) -> None:
        closed.append(fd)
        real_close(fd)

    with monkeypatch.context() as patch:
        patch.setattr("os.open", no_handles)
        patch.setattr("os.close", note_close)
        with pytest.raises(PtyctlError, match="Too many open files") as caught:
            await SessionHandle.open(controller, protocol="local", command=("true",))
    assert caught.value.code is ErrorCode.IO_ERROR
    assert sorted(opened) == sorted(closed)
    assert list((controller.settings.state_dir / "sessions").iterdir()) == []
    assert (await (await SessionHandle.open(controller, protocol="local", command=("true",))).status()).session_id


_SERVER = """
import asyncio, sys
from ptyctl.api import SessionRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController

COUNTER = "i=0; stty -opost; while :; do i=$((i+1)); echo $i; done"

async def serve():
    controller = LocalController()
    handle = await SessionHandle.open(controller, protocol="local", command=("sh", "-c", COUNTER))
    print(handle.session_id, flush=True)
    while True:
        await asyncio.sleep(0)
        (entry,) = (await controller.session(SessionRequest.of({"action": "list"}))).sessions
        print(entry.bytes_received, flush=True)

asyncio.run(serve())
"""


@pytest.mark.parametrize("attempt", range(5))
def test_server_killed_during_output_loses_no_received_byte(attempt: int) -> None:
    server = ForkedProgram(_SERVER)
    session_id = server.stdout.readline().strip()
    read = 0
    while read < 3_000 + attempt * 40_000:
        read = int(server.stdout.readline())
    server.kill()
    output, _ = server.communicate()
    rest = output.rpartition("\n")[0].split("\n")
    read = max([read, *(int(line) for line in rest if line)])
    kept = (Path(os.environ["PTYCTL_STATE_DIR"]) / "sessions" / session_id / "output.raw").read_bytes()
    kept, _, after = kept.partition(b"\0")
    assert set(after) <= {0}  # only preallocated room follows the received bytes
    assert len(kept) >= read
    lines = kept.decode().split("\n")
    assert lines[:-1] == [str(number) for number in range(1, len(lines))]
    assert str(len(lines)).startswith(lines[-1])


async def test_full_disk_during_run_keeps_exit_code_and_notes_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends normally, its block ends once, and the reply has a notice."""
    async with LocalController(Settings(state_dir=tmp_path / "full")) as controller:
        shell = await SessionHandle.open(controller, protocol="local", command=["bash", "--norc", "--noprofile"])
        await shell.exec("true")
        monkeypatch.setattr("os.posix_fallocate", full)
        reply = await shell.exec("seq 1 100000; (exit 3)", timeout_ms=30_000)
        assert (reply.exit_code, reply.output_truncated) == (3, True)
        assert any("gap" in notice for notice in reply.notices or [])
        assert (await shell.exec("echo still here")).stdout == "still here\n"
        session = await controller._registry.find(shell.session_id)
        assert [(block.status, block.exit_code) for block in session.blocks.all()] == [
            ("completed", 0),
            ("completed", 3),
            ("completed", 0),
        ]


async def test_device_run_that_crosses_the_quota_ends_at_its_prompt(tmp_path: Path) -> None:
    """Prompt and echo are found in the bytes that are in memory only; so is the whole output of the next command."""
    channel = MemoryChannel(lambda data: data.replace(b"\r", b"\r\n") + LINE * 20_000 + b"old> ")
    limits = Limits(quota_bytes=2 * FIRST_EXTENT_BYTES)
    session = await connect_session(tmp_path, channel, limits=limits, platform="cisco_ios")
    channel.feed(b"old> ")
    first = await run_command(session, "show it", max_output_bytes=1000)
    assert (first.done_reason, first.stdout[-17:], first.timed_out) == ("prompt", TEXT.decode(), False)
    assert not session.stream.persisting
    channel._on_write = lambda data: data.replace(b"\r", b"\r\n") + LINE + b"old> "
    second = await run_command(session, "show more")
    assert (second.done_reason, second.stdout, second.timed_out) == ("prompt", TEXT.decode(), False)
    await session.close()


async def test_device_run_after_recovery_with_a_gap_ends_at_its_prompt(tmp_path: Path) -> None:
    """The prompt is found in the output since the recovery; the output before it is lost."""
    limits = Limits(quota_bytes=FIRST_EXTENT_BYTES)
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel, limits=limits, platform="cisco_ios")
    channel.feed(LINE * 20_000 + b"old> ")
    end = session.stream.spool_end
    restored = await restore(await simulate_crash(session, tmp_path), limits)
    assert restored.stream.spool_end == end, "cursors stay valid"
    again = MemoryChannel(lambda data: data.replace(b"\r", b"\r\n") + LINE + b"old> ")
    await restored.connect(again)
    again.feed(b"old> ")
    done = await run_command(restored, "show it")
    assert (done.done_reason, done.stdout, done.cursor) == ("prompt", TEXT.decode(), str(end + len("old> show it\n")))
    assert (await read_from(restored.stream, cursor=str(end - 1))).chunk == f"old> show it\n{TEXT.decode()}old> "
    await restored.close()


async def test_failed_truncation_at_close_leaves_the_size_for_the_next_server(connect: Connect, tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(LINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.ftruncate", full)
        await session.close()
    folder = session.stream.folder
    assert (folder / "output.raw").stat().st_size == FIRST_EXTENT_BYTES
    assert (await read_from(session.stream, cursor="0")).chunk == TEXT.decode()
    restored = await restore(folder.parent)
    assert (restored.state, (folder / "output.raw").read_bytes()) == ("closed", LINE)
    await restored.close()


@pytest.mark.parametrize("quota", [1 << 30, 0])
async def test_chunk_after_close_stays_in_memory_and_no_mapping_is_left(tmp_path: Path, quota: int) -> None:
    stream = OutputStream(tmp_path / "s", 1 << 20, quota)
    stream.data_received(LINE)
    stream.close()
    stream.data_received(LINE)
    stream.data_received(LINE)
    assert stream.raw_size == 3 * len(LINE)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    assert (tmp_path / "s/output.end").exists() is (quota == 0)

"""Memory and disk that many commands take: forged marks, and blocks that are older than the recent ones."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.blocks import Block
from ptyctl.api.model import MAX_LIST_BYTES
from ptyctl.session.runs import blocks
from ptyctl.session.runs.run import Run, RunResult
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from ptyctl.session.transcript.append_file import json_line
from ptyctl.session.transcript.stored_blocks import index_blocks, read_blocks
from tests.cost import assert_cost
from tests.session.crash_simulation import restore, simulate_crash
from tests.session.scripted_session import connect_session

QUOTA = 1 << 20


async def session_with_commands(folder: Path, count: int, *, quota: int = QUOTA) -> Session:
    """Return a session whose far end has printed the marks of `count` commands."""
    channel = MemoryChannel()
    session = await connect_session(folder, channel, limits=Limits(quota_bytes=quota))
    for number in range(count):
        marks = (("P;0;1;/", b"$ x\r\n"), (f"B;command {number}", b"out\r\n"), ("E;0", b""))
        for place, (mark, text) in enumerate(marks):
            channel.feed(f"\x1b]7717;{session.shell_nonce};{number * 3 + place + 1};{mark}\x07".encode() + text)
        await asyncio.sleep(0)  # rows are written in the next turn of the loop
    session.flush()
    return session


async def test_forged_marks_do_not_exceed_quota_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "RECENT_BLOCKS", 100)
    session = await session_with_commands(tmp_path, 5_000)
    files = [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1.25 * QUOTA
    assert len(session.blocks.all()) < 1_000
    assert session.blocks.all()[-1].cmd == "command 4999"
    assert "quota is full" in (session.take_notices("any") or [""])[0]
    await session.close()


async def test_older_blocks_are_the_same_as_recent_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await session_with_commands(tmp_path / "all", 50, quota=64 * QUOTA)
    monkeypatch.setattr(blocks, "RECENT_BLOCKS", 5)
    compact = await session_with_commands(tmp_path / "compact", 50, quota=64 * QUOTA)

    def commands(of: Session) -> list[tuple[str, str, int | None, int | None]]:
        return [(block.cmd, block.status, block.exit_code, block.spool_end) for block in of.blocks.all()]

    assert commands(compact) == commands(session)
    listed = [(await of.blocks.since(10, 3))[0] for of in (compact, session)]
    assert [block.cmd for block in listed[0]] == [block.cmd for block in listed[1]]
    first = compact.blocks.all()[0]
    assert compact.blocks.get(first.block_id) == first
    restored = await restore(await simulate_crash(compact, tmp_path))
    assert [block.cmd for block in restored.blocks.all()] == [block.cmd for block in session.blocks.all()]
    await session.close()


async def test_memory_of_finished_commands_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 1,000 commands no more objects of commands exist than after 100; each older block is a short row."""
    monkeypatch.setattr(blocks, "RECENT_BLOCKS", 50)
    counts = []
    for count in (100, 1_000):
        session = await session_with_commands(tmp_path / str(count), count, quota=64 * QUOTA)
        gc.collect()
        objects = gc.get_objects()
        counts.append([sum(type(each) is kind for each in objects) for kind in (Run, RunResult, Block)])
        rows = [row for row in session.blocks._blocks.values() if isinstance(row, bytes)]
        assert len(rows) >= count - 52
        assert max(map(len, rows)) < 600
        await session.close()
        del session, objects
    assert all(many <= few for few, many in zip(*counts, strict=True)), counts


async def test_list_of_long_commands_ends_early_and_its_cursor_continues(tmp_path: Path) -> None:
    folder = tmp_path / "blocks-only"
    folder.mkdir()
    session = await session_with_commands(tmp_path, 1)
    rows = [
        Block(
            block_id=f"b{number}", seq=number, session_id="s", origin="exec", cmd="x" * (MAX_LIST_BYTES // 8), ts_begin=1,
            status="running", output_path="", raw_begin=0, spool_begin=0,
        )
        for number in range(20)
    ]  # fmt: skip
    stored = blocks.Blocks("s", folder, session.stream, index_blocks([*rows]), 1 << 30)
    first, cursor = await stored.since(0, 1000)
    second, cursor = await stored.since(cursor, 1000)
    third, cursor = await stored.since(cursor, 1000)
    assert (first, second, third, cursor) == (rows[:8], rows[8:16], rows[16:], 20)
    assert await stored.last(1000) == rows[12:]
    assert await stored.last(2) == rows[18:]
    stored.close()
    await session.close()


async def test_restored_commands_are_in_memory_as_rows(tmp_path: Path) -> None:
    """Objects of 100,000 commands would take 360 MB, and full garbage collections would stop the event loop for 0.2 s each."""
    session = await session_with_commands(tmp_path, 1_000, quota=64 * QUOTA)
    commands = [block.cmd for block in session.blocks.all()]
    sessions = await simulate_crash(session, tmp_path)
    await session.close()
    del session
    gc.collect()
    before = sum(type(each) is Block for each in gc.get_objects())
    restored = await restore(sessions)
    assert sum(type(each) is Block for each in gc.get_objects()) - before <= 2
    assert [block.cmd for block in restored.blocks.all()] == commands
    assert restored.blocks.get(restored.blocks.all()[7].block_id) == restored.blocks.all()[7]
    await restored.close()


def test_rows_of_many_commands_take_little_memory_while_they_are_read(tmp_path: Path) -> None:
    """Each has a row for its start and one for its end."""
    begun = {
        "session_id": "s", "origin": "exec", "cmd": "show interface", "ts_begin": 1, "status": "running", "output_path": "",
        "raw_begin": 0, "spool_begin": 0,
    }  # fmt: skip
    with (tmp_path / "blocks.jsonl").open("wb") as file:
        for number in range(2_000):
            row = {**begun, "block_id": f"b{number}", "seq": number + 1}
            file.write(json_line(row) + json_line({**row, "status": "completed", "ts_end": 2, "raw_end": 5, "spool_end": 5}))
    size = (tmp_path / "blocks.jsonl").stat().st_size
    assert_cost(lambda: index_blocks(read_blocks(tmp_path)), size, lines_per_byte=0.2, memory_per_byte=1.5)

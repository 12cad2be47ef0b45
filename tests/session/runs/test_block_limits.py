"""Memory and disk that many commands take: forged marks, and blocks that are older than the recent ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.session.runs import blocks
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
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
    assert [block.cmd for block in compact.blocks.since(10, 3)[0]] == [block.cmd for block in session.blocks.since(10, 3)[0]]
    first = compact.blocks.all()[0]
    assert compact.blocks.get(first.block_id) == first
    restored = await restore(await simulate_crash(compact, tmp_path))
    assert [block.cmd for block in restored.blocks.all()] == [block.cmd for block in session.blocks.all()]
    await session.close()

"""Files of an open session that another process truncates or removes: only that session is affected."""

from __future__ import annotations

import json
import os
import time

import pytest

from fixtures.memory_channel import MemoryChannel
from tests.session.conftest import Connect
from tests.session.scripted_session import read_from

LINE = b"a line of output\r\n"
TEXT = b"a line of output\n"


@pytest.mark.parametrize("names", [("output.raw",), ("output.end",), ("output.raw", "output.end")])
@pytest.mark.parametrize("size", [0, 5])
async def test_truncated_output_files_end_persistence_of_one_session_only(
    connect: Connect, names: tuple[str, ...], size: int
) -> None:
    """An access beyond the end of a mapped file raises SIGBUS, which ends the process."""
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(LINE)
    for name in names:
        os.truncate(session.stream.folder / name, size)
    for _ in range(10_000):
        channel.feed(LINE)
    assert session.state == "open"
    reply = await read_from(session.stream, mode="tail")
    assert (reply.chunk or "").endswith(TEXT.decode())
    assert session.stream.raw_size == len(LINE) * 10_001
    assert session.stream.persisting == ("output.raw" not in names)
    await session.close()
    if "output.raw" in names:
        assert (session.stream.folder / "output.raw").stat().st_size == size
    else:
        assert (session.stream.folder / "output.raw").read_bytes() == LINE * 10_001


async def test_clock_that_is_set_back_does_not_stop_the_timeline(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(LINE)
    now = time.time()
    for step in range(3):
        monkeypatch.setattr("time.time", lambda past=now - 3600 + step: past)
        channel.feed(LINE)
    session.stream.flush()
    rows = [json.loads(line) for line in (session.stream.folder / "timeline.jsonl").read_text().splitlines()]
    assert [row["raw"] for row in rows if row["kind"] == "data"] == [0, *(len(LINE) * number for number in (1, 2, 3))]


async def test_session_without_its_folder_continues(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    for path in session.stream.folder.glob("*"):
        if path.is_file():
            path.unlink()
    for _ in range(10_000):
        channel.feed(LINE)
    assert ((await read_from(session.stream, mode="tail")).chunk or "").endswith(TEXT.decode())
    await session.close()
    assert session.state == "closed"

"""Screen deltas: at most 20 per second, always including the last state, and only while they are read."""

from __future__ import annotations

import asyncio
import json

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.screen import ScreenDelta
from ptyctl.api.session import PtyOptions
from ptyctl.session.screen import deltas as screen_deltas
from ptyctl.session.session import Session
from tests.session.conftest import Connect
from tests.session.scripted_session import wait_until

PATIENCE_S = 20
SIZE = PtyOptions(cols=20, rows=4)


def applied(deltas: list[ScreenDelta]) -> list[str]:
    """Return the rows after applying all deltas."""
    rows: list[str] = []
    for delta in deltas:
        rows = [""] * delta.rows_count if delta.rows_count is not None else rows
        for row in delta.rows:
            rows[row.row] = row.text
    return rows


async def until_shown(session: Session, text: str, cursor: int = 0) -> tuple[list[ScreenDelta], int]:
    """Wait for a delta that contains `text`; return all deltas from the cursor."""
    deltas = session.display.deltas
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found, resume = deltas.since(cursor, 10_000)
            if any(text in row.text for delta in found for row in delta.rows):
                return found, resume
            await asyncio.sleep(0.01)


async def test_first_delta_has_all_rows_and_next_only_changed_rows(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=SIZE)
    channel.feed(b"one\r\ntwo")
    await session.display.deltas.record()
    (first,), cursor = session.display.deltas.since(0, 50)
    assert [(row.row, row.text) for row in first.rows] == [(0, "one"), (1, "two"), (2, ""), (3, "")]
    assert (first.cursor.row, first.cursor.col, first.rows_count) == (1, 3, 4)
    channel.feed(b" more")
    (second,), cursor = await until_shown(session, "two more", cursor)
    assert [(row.row, row.text) for row in second.rows] == [(1, "two more")]
    assert second.rows_count is None
    assert session.display.deltas.since(cursor, 50) == ([], cursor)


async def test_fast_updates_give_at_most_20_deltas_per_second_and_last_state(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=SIZE)
    await session.display.deltas.record()
    begun = asyncio.get_running_loop().time()
    for frame in range(500):
        channel.feed(b"\rframe %d" % frame)
        await asyncio.sleep(0.001)
    channel.feed(b"\rdone          ")
    found, _ = await until_shown(session, "done")
    seconds = asyncio.get_running_loop().time() - begun
    assert len(found) <= 2 + 20 * seconds
    assert applied(found)[0] == "done"


async def test_delta_contains_rows_with_changed_text_only(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=SIZE)
    channel.feed(b"text")
    await session.display.deltas.record()
    channel.feed(b"\rtext\x1b[5nagain")
    channel.feed(b"\x1b[1K\x1b[3;1Hthird")
    found, _ = await until_shown(session, "third")
    assert applied(found) == list((await session.display.screen.state()).snapshot.rows)


async def test_delta_after_resize_has_all_rows(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=SIZE)
    channel.feed(b"text")
    await session.display.deltas.record()
    _, cursor = session.display.deltas.since(0, 50)
    session.resize(30, 6)
    (delta,), _ = await until_shown(session, "text", cursor)
    assert (delta.cols, delta.rows_count, len(delta.rows)) == (30, 6, 6)


async def test_recording_without_reader_stops_and_next_read_starts_with_all_rows(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen_deltas, "UNREAD_S", 0.0)
    channel = MemoryChannel()
    session = await connect(channel, pty=SIZE)
    deltas = session.display.deltas
    await deltas.record()
    await wait_until(lambda: not deltas.recording)
    _, cursor = deltas.since(0, 50)
    channel.feed(b"unseen")
    await asyncio.sleep(0)
    assert deltas.cursor == cursor
    monkeypatch.undo()
    await deltas.record()
    (again,), _ = deltas.since(cursor, 50)
    assert (again.rows_count, again.rows[0].text) == (4, "unseen")


async def test_deltas_page_by_page_equal_all_deltas_and_wrong_cursor_is_refused(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=SIZE)
    deltas = session.display.deltas
    await deltas.record()
    for number in range(3):
        channel.feed(b"\rtext %d" % number)
        await until_shown(session, f"text {number}")
    everything, end = deltas.since(0, 50)
    paged, cursor = [], 0
    while cursor < end:
        (delta,), cursor = deltas.since(cursor, 1)
        paged.append(delta)
    assert paged == everything
    for wrong, part in ((end + 1, "past"), (1, "not the start of a delta")):
        with pytest.raises(PtyctlError, match=part) as caught:
            deltas.since(wrong, 50)
        assert caught.value.code is ErrorCode.INVALID_ARGUMENT


async def test_deltas_and_snapshot_after_close_are_on_disk(connect: Connect) -> None:
    channel = MemoryChannel()
    session = await connect(channel, pty=SIZE)
    await session.display.deltas.record()
    channel.feed(b"text")
    found, _ = await until_shown(session, "text")
    await session.close(force=True)
    folder = session.stream.folder
    assert json.loads((folder / "screen.snapshot.json").read_text())["rows"][0] == "text"
    lines = (folder / "screen.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["screen_delta"] * len(lines)
    assert session.display.deltas.since(0, 50)[0][: len(found)] == found


async def test_recording_at_size_limit_stops_and_reports_full(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_deltas, "LIMIT_BYTES", 100)
    channel = MemoryChannel()
    session = await connect(channel, pty=SIZE)
    deltas = session.display.deltas
    await deltas.record()
    assert deltas.full
    await wait_until(lambda: not deltas.recording)
    await deltas.record()
    assert len(deltas.since(0, 50)[0]) == 1

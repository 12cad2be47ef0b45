"""OutputStream, property tests: files, reads and waits agree for any output in any pieces."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptyctl.core.normaliser import Normaliser
from ptyctl.core.search import compile_pattern
from ptyctl.session.io.output_stream import GapStarted, OutputStream
from ptyctl.session.transcript.raw_log import FIRST_EXTENT_BYTES
from tests.session.scripted_session import read_from, split_at
from transports.errors import ChannelEnded

raw_bytes = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\r", b"\n", b"\r\n", b"\r\r\n", b"\x1b", b"\x1b[", b"\x1b]", b"\x1b\\", b"\x07", b" " * 20, b"text\r\n"]
        ),
        st.sampled_from(
            [b"\x1b[1;3m", b"\x1b]0;t\x07", b"\x1bPx\x1b\\", "é€😀".encode(), "€".encode() * 9, b"\x00", b"\xe2\x82"]
        ),
        st.binary(max_size=12),
    ),
    max_size=40,
).map(b"".join)
places = st.lists(st.integers(0, 1_000), max_size=12)
sizes = st.lists(st.integers(1, 60), min_size=1, max_size=30)


def normalised(raw: bytes) -> bytes:
    machine = Normaliser()
    return machine.feed(raw) + machine.flush()


def run_on_stream(
    work: Callable[[OutputStream], Coroutine[Any, Any, None]], *, window: int = 1 << 20, quota: int = 1 << 30
) -> tuple[bytes, bytes, list[dict[str, Any]]]:
    """Run `work` on a new stream and return the content of its raw log, spool and timeline."""

    async def run() -> tuple[bytes, bytes, list[dict[str, Any]]]:
        with tempfile.TemporaryDirectory() as folder:
            stream = OutputStream(Path(folder) / "s", window, quota)
            await work(stream)
            stream.close()
            kept = Path(folder) / "s"
            rows = [json.loads(line) for line in (kept / "timeline.jsonl").read_text().splitlines()]
            return (kept / "output.raw").read_bytes(), (kept / "output.spool").read_bytes(), rows

    return asyncio.run(run())


@given(raw_bytes, places)
def test_files_after_end_hold_raw_bytes_spool_and_timeline(raw: bytes, places: list[int]) -> None:
    async def work(stream: OutputStream) -> None:
        for piece in pieces:
            stream.data_received(piece)
        stream.channel_ended(ChannelEnded("end"))

    pieces = split_at(raw, places)
    with pytest.MonkeyPatch.context() as patch:  # one timeline row per piece
        patch.setattr("ptyctl.session.transcript.transcript.ROW_INTERVAL_MS", 0)
        kept, spool, rows = run_on_stream(work)
    assert kept == raw
    assert spool == normalised(raw)
    assert [row["raw"] for row in rows] == [len(b"".join(pieces[:number])) for number in range(len(pieces))]
    for row in rows:
        assert row["spool"] == len(Normaliser().feed(raw[: row["raw"]]))


@given(raw_bytes, places, sizes)
def test_consecutive_base64_reads_return_whole_spool(raw: bytes, places: list[int], sizes: list[int]) -> None:
    """Reads happen between the pieces and then until the end: no byte is missing or repeated."""

    async def work(stream: OutputStream) -> None:
        seen, cursor, number = b"", "0", 0

        async def read_once() -> bool:
            nonlocal seen, cursor, number
            number += 1
            reply = await read_from(stream, cursor=cursor, encoding="base64", max_bytes=sizes[number % len(sizes)])
            chunk = base64.b64decode(reply.chunk or "")
            assert reply.next_cursor == str(int(cursor) + len(chunk))
            assert not reply.truncated
            seen, cursor = seen + chunk, reply.next_cursor
            return bool(reply.eof)

        for piece in split_at(raw, places):
            stream.data_received(piece)
            await read_once()
        stream.channel_ended(ChannelEnded("end"))
        while not await read_once():
            pass
        assert seen == normalised(raw)

    with pytest.MonkeyPatch.context() as patch:  # do not wait for the rest of a character
        patch.setattr("ptyctl.session.calls.read.INCOMPLETE_CHARACTER_S", 0.0)
        run_on_stream(work)


@given(raw_bytes, sizes)
def test_consecutive_text_reads_return_whole_text(raw: bytes, sizes: list[int]) -> None:
    async def work(stream: OutputStream) -> None:
        stream.data_received(raw) if raw else None
        stream.channel_ended(ChannelEnded("end"))
        text, cursor, number, eof = "", "0", 0, False
        while not eof:
            number += 1
            reply = await read_from(stream, cursor=cursor, max_bytes=sizes[number % len(sizes)])
            text, cursor, eof = text + (reply.chunk or ""), reply.next_cursor or "", bool(reply.eof)
        assert text == normalised(raw).decode("utf-8", "replace")

    run_on_stream(work)


@given(raw_bytes, places, sizes, st.integers(16, 64))
def test_reads_from_small_window_report_exact_dropped_bytes(
    raw: bytes, places: list[int], sizes: list[int], window: int
) -> None:
    async def work(stream: OutputStream) -> None:
        spool, cursor = normalised(raw), 0
        for piece in [*split_at(raw, places), None]:
            stream.channel_ended(ChannelEnded("end")) if piece is None else stream.data_received(piece)
            reply = await read_from(stream, cursor=str(cursor), encoding="base64", max_bytes=sizes[0])
            chunk = base64.b64decode(reply.chunk or "")
            begin = cursor + (reply.dropped_bytes or 0)
            assert reply.truncated == (reply.dropped_bytes != 0)
            assert chunk == spool[begin : begin + len(chunk)]
            assert begin >= int(reply.buffer_start_cursor or 0)
            cursor = begin + len(chunk)
            assert reply.next_cursor == str(cursor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ptyctl.session.calls.read.INCOMPLETE_CHARACTER_S", 0.0)
        run_on_stream(work, window=window)


@settings(max_examples=30)
@given(raw_bytes, st.lists(st.integers(1, 3 * FIRST_EXTENT_BYTES), min_size=2, max_size=6))
def test_pieces_larger_than_extent_are_stored_whole(raw: bytes, lengths: list[int]) -> None:
    everything = b"".join((raw or b"x") * (length // max(len(raw), 1) + 1) for length in lengths)

    async def work(stream: OutputStream) -> None:
        rest = everything
        for length in lengths:
            stream.data_received(rest[:length])
            rest = rest[length:]
        stream.data_received(rest) if rest else None
        stream.channel_ended(ChannelEnded("end"))
        assert stream.read_raw(0, len(everything)) == everything

    kept, spool, _ = run_on_stream(work)
    assert kept == everything
    assert spool == normalised(everything)


@settings(max_examples=30)
@given(st.integers(0, 5 * FIRST_EXTENT_BYTES), st.lists(st.integers(1, 90_000), min_size=3, max_size=12))
def test_offsets_past_quota_keep_counting_and_gap_is_noted_once(quota: int, lengths: list[int]) -> None:
    line = b"0123456789abcde\r\n"
    everything = line * (sum(lengths) // len(line) + 1)

    async def work(stream: OutputStream) -> None:
        gaps: list[str] = []
        stream.subscribe(GapStarted, lambda event: gaps.append("gap"))
        rest = everything
        for length in lengths:
            stream.data_received(rest[:length])
            rest = rest[length:]
        stream.data_received(rest) if rest else None
        stream.channel_ended(ChannelEnded("end"))
        assert stream.spool_end == len(normalised(everything))
        assert stream.raw_size == len(everything)
        assert len(gaps) == (0 if stream.raw_kept == len(everything) else 1)

    kept, spool, rows = run_on_stream(work, quota=quota)
    assert len(kept) <= quota
    assert kept == everything[: len(kept)]
    assert spool == normalised(everything)[: len(spool)]
    assert [row["kind"] for row in rows].count("gap") == (len(kept) < len(everything))


@given(
    st.lists(st.sampled_from([b"ab", b"a", b"b", b"\n", "é".encode(), b"\x1b[1m", b"\r"]), max_size=30).map(b"".join),
    places,
    st.sampled_from(["ab", "(?m)^b", "é[ab]", "^a", "b\nb?a"]),
)
def test_waiting_read_in_any_pieces_finds_same_match_as_later_read(raw: bytes, places: list[int], pattern: str) -> None:
    async def work(stream: OutputStream) -> None:
        waiting = asyncio.create_task(read_from(stream, cursor="0", until_regex=pattern, timeout_ms=20_000))
        for piece in split_at(raw, places):
            await asyncio.sleep(0)
            stream.data_received(piece)
        stream.channel_ended(ChannelEnded("end"))
        reply = await waiting
        spool = normalised(raw)
        found = await read_from(stream, cursor="0", until_regex=pattern)
        assert reply.matched == found.matched
        if reply.matched:
            end = int(reply.next_cursor or 0)
            assert (reply.chunk or "").encode() == spool[:end]
            assert compile_pattern(f"(?:{pattern})$", "pattern").search(spool[:end])
        else:
            assert (reply.chunk or "").encode() == spool

    run_on_stream(work)

"""Searches of blocks read text that is not in memory outside the event loop."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.blocks import BlocksReply, BlocksSearch, Hit
from ptyctl.api.model import MAX_LIST_BYTES
from ptyctl.session.calls import block_search
from ptyctl.session.calls.block_search import blocks_search
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from ptyctl.session.transcript.transcript import Transcript
from tests.cost import LineCount
from tests.session.conftest import Connect
from tests.session.scripted_session import run_command

OUTPUT = b"".join(b"line %d\r\n" % number for number in range(20_000)) + b"R1# "


async def with_long_block(connect: Connect) -> Session:
    """Return a session with a block that is longer than its window."""
    device = MemoryChannel(lambda data: data.replace(b"\r", b"\r\n") + OUTPUT)
    session = await connect(device, platform="generic", limits=Limits(window_bytes=4096))
    device.feed(b"R1# ")
    assert (await run_command(session, "show all")).done_reason == "prompt"
    return session


async def with_lines(connect: Connect, lines: Sequence[str]) -> Session:
    """Return a session with a command that has printed these lines."""
    device = MemoryChannel(lambda data: data.replace(b"\r", b"\r\n") + "\r\n".join([*lines, "R1# "]).encode())
    session = await connect(device, platform="generic")
    device.feed(b"R1# ")
    await run_command(session, "show all")
    return session


async def found(session: Session) -> list[str]:
    reply = await blocks_search(session, BlocksSearch.of({"session_id": "s", "query": "line 777"}))
    return [hit.text for hit in reply.hits or ()]


EXPECTED = ["line 777", *(f"line 777{digit}" for digit in range(10))]


async def test_text_on_disk_is_not_read_in_the_event_loop(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await with_long_block(connect)
    monkeypatch.setattr(Transcript, "read_spool", None)
    assert await found(session) == EXPECTED


async def test_text_of_a_removed_file_is_found(connect: Connect) -> None:
    session = await with_long_block(connect)
    session.stream.flush()
    (session.stream.folder / "output.spool").unlink()
    assert await found(session) == EXPECTED


@pytest.mark.parametrize("context", [1, 2, 9])
async def test_hits_have_the_lines_around_them_blank_ones_too(connect: Connect, context: int) -> None:
    lines = ["one", "", "hit", "", "two", "hit again", "R1# "]
    session = await with_lines(connect, lines[:-1])
    reply = await blocks_search(session, BlocksSearch.of({"session_id": "s", "query": "hit", "context": context}))
    shown = [(hit.before, hit.after) for hit in reply.hits or ()]
    assert shown == [(lines[max(at - context, 0) : at], lines[at + 1 :][:context]) for at in (2, 5)]


async def pages_of(session: Session, **fields: Any) -> AsyncGenerator[list[Hit]]:
    """Search with the cursor of each reply until the last one."""
    at: dict[str, int] = {}
    while True:
        reply = await blocks_search(session, BlocksSearch.of({"session_id": "s", **fields, **at}))
        yield reply.hits or []
        if not reply.truncated:
            return
        assert reply.resume_cursor is not None
        at = {"from_cursor": reply.resume_cursor}


@pytest.mark.parametrize("newest_first", [False, True])
async def test_reply_with_large_hits_ends_early_and_its_cursor_continues(connect: Connect, newest_first: bool) -> None:
    session = await with_lines(connect, [f"hit {number:03} {'x' * 900}" for number in range(100)])
    fields = {"query": "hit", "limit": 1000, "context": 20, "newest_first": newest_first}
    pages = [page async for page in pages_of(session, **fields)]
    assert len(pages) > 2
    for page in pages:
        assert page
        assert len(BlocksReply(hits=page).model_dump_json()) < 1.1 * MAX_LIST_BYTES
    lines = [hit.text[:7] for page in pages for hit in page]
    assert lines == sorted((f"hit {number:03}" for number in range(100)), reverse=newest_first)


async def test_context_of_hits_is_taken_from_a_short_output_in_a_thread(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 hits with 40 lines each take 70 ms, in an output that is searched within 1 ms."""
    session = await with_lines(connect, ["a"] * 5_000)
    threads: list[str] = []
    lines_back = block_search._lines_back

    def record_thread(text: bytes, at: int, count: int) -> int:
        threads.append(threading.current_thread().name)
        return lines_back(text, at, count)

    monkeypatch.setattr(block_search, "_lines_back", record_thread)
    reply = await blocks_search(session, BlocksSearch.of({"session_id": "s", "query": "a", "limit": 1000, "context": 20}))
    assert len(reply.hits or ()) == 1000
    assert threading.current_thread().name not in threads


async def test_context_is_decoded_only_of_hits_in_the_reply(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await with_lines(connect, ["a"] * 5_000)
    decoded = 0
    lines_back = block_search._lines_back

    def count(text: bytes, at: int, lines: int) -> int:
        nonlocal decoded
        decoded += 1
        return lines_back(text, at, lines)

    monkeypatch.setattr(block_search, "_lines_back", count)
    request = BlocksSearch.of({"session_id": "s", "query": "a", "limit": 10, "context": 1, "newest_first": True})
    assert len((await blocks_search(session, request)).hits or ()) == 10
    assert decoded == 11


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize(("limit", "context"), [(1, 0), (1000, 0), (1000, 1), (1000, 20)])
async def test_search_with_many_hits_takes_few_steps_in_the_event_loop(
    connect: Connect, newest_first: bool, limit: int, context: int
) -> None:
    """A short output can have thousands of matching lines. More than some hundred are found in a thread."""
    session = await with_lines(connect, ["x"] * 5_000)
    fields = {"query": "x", "limit": limit, "context": context, "newest_first": newest_first}
    request = BlocksSearch.of({"session_id": "s", **fields})
    with LineCount() as count:
        reply = await blocks_search(session, request)
    assert len(reply.hits or ()) == limit
    assert count.lines < 15_000

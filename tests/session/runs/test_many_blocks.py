"""A session with 8,000 commands: few of them are parsed in one iteration of the event loop, by counts of blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.blocks import Block, BlocksSearch, BlocksSince
from ptyctl.api.history import SearchRequest
from ptyctl.controller.registry import SessionRegistry
from ptyctl.controller.search import BlockSearches
from ptyctl.session.calls import block_search
from ptyctl.session.calls.block_read import blocks_since
from ptyctl.session.calls.block_search import blocks_search
from ptyctl.session.calls.expect import ExpectWait, expectation
from ptyctl.session.io.time_slice import SLICE_S
from ptyctl.session.runs.blocks import Blocks
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits
from ptyctl.session.transcript.stored_blocks import EventLogPosition, index_blocks
from tests.session.conftest import Connect

COUNT = 8_000
#: What the fake clock counts for a block that is parsed: 101 of them are longer than a slice.
PARSE_S = SLICE_S / 100
MOST = 110

Result = TypeVar("Result")


class ParsedBlocks:
    """Counts the blocks that are parsed in each iteration of the event loop; parsing takes time on the clock of the slices."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.iterations = [0]
        self._now = 0.0
        monkeypatch.setattr("ptyctl.session.io.time_slice.clock", lambda: self._now)
        parse = Blocks._parse

        def counted(owner: Blocks, stored: Block) -> Block:
            self._now += PARSE_S
            self.iterations[-1] += 1
            return parse(owner, stored)

        monkeypatch.setattr(Blocks, "_parse", counted)

    async def during(self, call: Awaitable[Result]) -> Result:
        """Await a call, and count from zero."""
        self.iterations = [0]
        counting = asyncio.create_task(self._count())
        try:
            return await call
        finally:
            counting.cancel()

    async def _count(self) -> None:
        while True:
            self.iterations.append(0)
            await asyncio.sleep(0)


def use_blocks(
    session: Session, folder: Path, end_of: Callable[[int], int], changed: dict[int, dict[str, object]], **fields: object
) -> None:
    """Let a session have the stored blocks of `COUNT` commands without output.

    Args:
        end_of: returns where in the spool a command ended.
        changed: fields of single commands.
    """

    def row(number: int) -> Block:
        return Block.model_validate(
            {
                "block_id": f"b{number}", "seq": number + 1, "session_id": "s", "origin": "exec", "cmd": "show clock",
                "ts_begin": 0, "ts_end": 0, "status": "completed", "output_path": "", "raw_begin": 0, "raw_end": 0,
                "spool_begin": end_of(number), "spool_end": end_of(number), **fields, **changed.get(number, {}),
            }
        )  # fmt: skip

    session.blocks.close()
    folder = folder / "blocks-only"
    folder.mkdir()
    session.blocks = Blocks("s", folder, session.stream, index_blocks([*map(row, range(COUNT))]), 1 << 30)


async def test_search_of_one_session_parses_few_blocks_in_one_iteration(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = MemoryChannel()
    session = await connect(channel)
    channel.feed(b"needle\r\n" * 2)
    with_output = {"spool_end": len("needle\n")}
    use_blocks(session, tmp_path, lambda number: 0, {4_000: with_output, COUNT - 1: with_output})
    parsed = ParsedBlocks(monkeypatch)
    searched, search = list[int](), block_search._lines_of_piece

    def counted(*arguments: object, blocks: list[object], **named: object) -> object:
        searched.append(len(blocks))
        return search(*arguments, blocks=blocks, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(block_search, "_lines_of_piece", counted)
    for newest_first in (False, True):
        request = BlocksSearch.of({"session_id": "s", "query": "needle", "newest_first": newest_first})
        reply = await parsed.during(blocks_search(session, request))
        expected = ["b4000", f"b{COUNT - 1}"]
        assert [hit.block_id for hit in reply.hits or ()] == (expected[::-1] if newest_first else expected)
        assert (sum(parsed.iterations), max(parsed.iterations) <= MOST) == (COUNT, True)
        assert (sum(searched), max(searched)) == (COUNT, block_search._PIECE_BLOCKS)
        searched.clear()


async def test_search_of_all_sessions_parses_few_blocks_in_one_iteration(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await connect(MemoryChannel())
    changed: dict[int, dict[str, object]] = {number: {"exit_code": 3} for number in (5, 10, 11, 7_800)}
    changed[10]["seq"], changed[11]["seq"] = 12, 11  # one waited for its approval
    use_blocks(session, tmp_path, lambda number: 0, changed)
    registry = SessionRegistry(Limits().use, lambda session_id, hold: asyncio.sleep(0))
    monkeypatch.setattr(registry, "known", lambda: [session])
    monkeypatch.setattr("ptyctl.controller.search.SEARCH_S", 1e6)
    parsed = ParsedBlocks(monkeypatch)
    searches = BlockSearches(tmp_path / "none", registry)
    reply = await parsed.during(searches.search(SearchRequest(exit_code=3), lambda *names: True))
    assert [hit.block_id for hit in reply.hits] == ["b7800", "b10", "b11", "b5"]
    assert (sum(parsed.iterations), max(parsed.iterations) <= MOST) == (COUNT, True)


async def test_wait_for_prompt_parses_few_blocks_in_one_iteration(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newest first, back to the cursor: at the end of the output two of them, from the beginning all."""
    channel = MemoryChannel()
    session = await connect(channel, platform="generic")
    prompt = "R1# \n"
    channel.feed(prompt.encode() * COUNT + b"working")
    # Each block begins at its end, so that its last line is empty, but for those that have their prompt.
    with_prompt = {number: {"spool_begin": number * len(prompt)} for number in (3, 6_000, COUNT - 2)}
    use_blocks(session, tmp_path, lambda number: number * len(prompt) + 4, with_prompt, device=True)
    parsed = ParsedBlocks(monkeypatch)
    prompts = expectation("prompt", None, "")

    async def first_prompt(cursor: int) -> tuple[int, int] | None:
        match = await parsed.during(ExpectWait(session, prompts, cursor).run(0.0))
        assert max(parsed.iterations) <= MOST
        return None if match is None else (match.start, match.end)

    for cursor, expected, count in (
        (0, 3, COUNT),
        (3 * len(prompt) + 1, 6_000, COUNT),
        (6_000 * len(prompt) + 1, COUNT - 2, COUNT - 6_000),
        ((COUNT - 2) * len(prompt), COUNT - 2, 100),
    ):
        assert await first_prompt(cursor) == (expected * len(prompt), expected * len(prompt) + 4)
        assert sum(parsed.iterations) <= count + 5
    assert await first_prompt((COUNT - 1) * len(prompt)) is None


async def test_restore_parses_only_blocks_that_the_event_log_does_not_have(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await connect(MemoryChannel())
    use_blocks(session, tmp_path, lambda number: 0, {})
    parsed = ParsedBlocks(monkeypatch)
    assert [block.block_id for block in session.blocks.begun_since(f"b{COUNT - 2}")] == [f"b{COUNT - 2}", f"b{COUNT - 1}"]
    assert list(session.blocks.begun_since("unknown")) == []
    assert parsed.iterations == [2]


async def test_restore_publishes_missing_events_of_few_blocks_in_one_iteration(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await connect(MemoryChannel())
    typed = 1_000  # the others were refused, and have no events
    use_blocks(session, tmp_path, lambda number: 0, {number: {"refused": "denied"} for number in range(typed, COUNT)})
    parsed, before = ParsedBlocks(monkeypatch), session.events.cursor
    await parsed.during(session.publish_missing_events(EventLogPosition()))
    assert (sum(parsed.iterations), max(parsed.iterations) <= MOST) == (COUNT, True)
    assert session.events.cursor == before + 2 * typed


async def test_last_command_before_many_refused_ones_is_found_without_parsing_them(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await connect(MemoryChannel())
    refused: dict[str, object] = {"status": "cancelled", "refused": "denied"}
    use_blocks(session, tmp_path, lambda number: 0, dict.fromkeys(range(8, COUNT), refused))
    parsed = ParsedBlocks(monkeypatch)
    for _ in range(2):
        last = session.blocks.latest()
        assert last is not None
        assert last.block_id == "b7"
    assert parsed.iterations == [2]


async def test_wait_for_prompt_examines_blocks_again_only_for_another_prompt(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = MemoryChannel()
    session = await connect(channel, platform="generic")
    channel.feed(b"~ready~\r\nworking")
    end = len("~ready~")
    use_blocks(session, tmp_path, lambda number: end, {7: {"spool_begin": 0}}, device=True)
    parsed = ParsedBlocks(monkeypatch)
    waiting = asyncio.create_task(ExpectWait(session, expectation("prompt", None, ""), 0).run(60.0))
    for _ in range(COUNT // 100 + 20):
        await asyncio.sleep(0)
    examined = parsed.iterations[-1]
    assert COUNT <= examined <= COUNT + 5
    channel.feed(b".")
    for _ in range(20):
        await asyncio.sleep(0)
    assert parsed.iterations[-1] <= examined + 5
    session.prompt.learn("~ready~")
    channel.feed(b".")
    match = await waiting
    assert match is not None
    assert (match.start, match.end) == (0, end)


@pytest.mark.parametrize("fields", [{"last": 1000}, {"cursor": 5, "limit": 1000}])
async def test_list_of_blocks_parses_few_in_one_iteration(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, int]
) -> None:
    session = await connect(MemoryChannel())
    use_blocks(session, tmp_path, lambda number: 0, {})
    parsed = ParsedBlocks(monkeypatch)
    reply = await parsed.during(blocks_since(session, BlocksSince.of({"session_id": "s", **fields})))
    assert len(reply.items or ()) == 1000
    assert (sum(parsed.iterations), max(parsed.iterations) <= MOST) == (1000, True)

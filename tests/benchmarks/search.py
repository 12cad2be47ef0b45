"""Rows search-blocks, wait-substring and wait-regex.

search-blocks searches the output of 10,000 commands, 2 KB each; only the last has a match.

wait-* feed 32 MB in pieces of 4 KiB while a pty_wait_for waits; the match is at the end. Feeding alone (disk, normaliser, one
event-loop iteration per piece) takes many times longer than the search, so the ratio is that of the additional time:

    (time with a waiter - time without) / one re2 search over all of it

There are two wait rows because re2 finds the bytes of a literal faster than other patterns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import re2

from fixtures.memory_channel import MemoryChannel

from . import flood
from .measurement import OURS, Candidate, Plan, Result, TimedCall, in_milliseconds, measure
from .sessions import call_pty, scripted_session
from .table import Aim, Row

BLOCKS = 10_000
BLOCK_BYTES = 2000
BLOCK_NEEDLE = "line protocol is down"
LIMIT_MS = 50

ONE_PASS = "one re2 pass"

DEVICE_PROMPT = "core-sw1#"


class _Device:
    """Responds to each command with 2 KB of lines, and to the last command with one line more."""

    def __init__(self) -> None:
        count = round(BLOCK_BYTES / len(flood.LINE.format(0)))
        self._output = "".join(flood.LINE.format(number) for number in range(count))
        self._unfinished = ""

    def answer(self, data: bytes) -> bytes:
        *commands, self._unfinished = (self._unfinished + data.decode()).replace("\r\n", "\r").split("\r")
        return "".join(map(self._output_of, commands)).replace("\n", "\r\n").encode()

    def _output_of(self, command: str) -> str:
        output = self._output if command else ""
        if command == _command(BLOCKS - 1):
            output += f"GigabitEthernet1/0/47 is down, {BLOCK_NEEDLE} (notconnect)\n"
        return f"{command}\n{output}{DEVICE_PROMPT}"


def _command(number: int) -> str:
    return f"show interfaces {number:05}"


@asynccontextmanager
async def _filled() -> AsyncIterator[tuple[Any, bytes]]:
    """Yield a session with all blocks, and its spool."""
    async with scripted_session(_Device().answer) as (session, channel):
        channel.feed(DEVICE_PROMPT.encode())
        for number in range(BLOCKS):
            reply = await session.exec(_command(number))
            assert reply.done_reason == "prompt", reply
        spool = b""
        while page := (await call_pty(session, "pty_read_spool", from_cursor=len(spool), max_bytes=1 << 22)).data:
            spool += page.encode()
        yield session, spool


async def _search_blocks(plan: Plan) -> Result:
    """Fill the session once for all candidates: that takes a thousand times longer than a search."""
    async with _filled() as (session, spool):

        @asynccontextmanager
        async def ours() -> AsyncIterator[TimedCall]:
            async def once() -> float:
                start = time.perf_counter()
                reply = await call_pty(session, "blocks_search", query=BLOCK_NEEDLE)
                seconds = time.perf_counter() - start
                assert [hit.seq for hit in reply.hits] == [BLOCKS], reply
                return seconds

            yield once

        @asynccontextmanager
        async def bare() -> AsyncIterator[TimedCall]:
            pattern = re2.compile(re2.escape(BLOCK_NEEDLE).encode())

            async def once() -> float:
                start = time.perf_counter()
                found = sum(1 for _ in pattern.finditer(spool))
                seconds = time.perf_counter() - start
                assert found == 1, found
                return seconds

            yield once

        return in_milliseconds(await measure([Candidate(OURS, ours), Candidate(ONE_PASS, bare)], plan))


BLOCKS_WORK = f"blocks_search over {BLOCKS:,} blocks of {BLOCK_BYTES // 1000} KB"
BLOCKS_ROW = Row("search-blocks", BLOCKS_WORK, "ms", ONE_PASS, (Aim("≤", LIMIT_MS),), _search_blocks)


WAIT_BYTES = 32_000_000
PIECE_BYTES = 4096
WAIT_NEEDLE = b"core-sw1#"
#: Without a literal prefix, which re2 finds faster, and without `$`, for which re2 searches backwards from the end.
PROMPT_REGEX = "(?m)^[a-z0-9-]+[>#]"

ONE_SEARCH = "one re2 search"
FED = "feeding alone"


async def _feed(channel: MemoryChannel, text: bytes) -> None:
    """Feed pieces of 4 KiB; yield to the event loop after each, as a socket does."""
    for begin in range(0, len(text), PIECE_BYTES):
        channel.feed(text[begin : begin + PIECE_BYTES])
        await asyncio.sleep(0)


@asynccontextmanager
async def _fed(text: bytes) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        async with scripted_session() as (_, channel):
            start = time.perf_counter()
            await _feed(channel, text)
            return time.perf_counter() - start

    yield once


@asynccontextmanager
async def _search(text: bytes, searched: str) -> AsyncIterator[TimedCall]:
    compiled = re2.compile(searched.encode())

    async def once() -> float:
        start = time.perf_counter()
        found = compiled.search(text)
        seconds = time.perf_counter() - start
        assert found is not None
        assert found.end() == len(text)
        return seconds

    yield once


def _wait_row(kind: str, pattern: str, searched: str, times: float) -> Row:
    """Return a row. `pattern` is the argument of the tool, `searched` the equivalent RE2 pattern, `times` the limit."""

    @asynccontextmanager
    async def ours(text: bytes) -> AsyncIterator[TimedCall]:
        async def once() -> float:
            async with scripted_session() as (session, channel):
                waiting = asyncio.create_task(
                    call_pty(session, "pty_wait_for", match=pattern, match_type=kind, from_cursor=0, timeout_ms=flood.WAIT_MS)
                )
                await asyncio.sleep(0)
                start = time.perf_counter()
                await _feed(channel, text)
                reply = await waiting
                seconds = time.perf_counter() - start
                assert reply.resume_cursor == len(text), reply
                return seconds

        yield once

    async def run(plan: Plan) -> Result:
        text = flood.text()[: WAIT_BYTES - len(WAIT_NEEDLE) - 1] + b"\n" + WAIT_NEEDLE
        candidates = [
            Candidate(OURS, lambda: ours(text)),
            Candidate(ONE_SEARCH, lambda: _search(text, searched)),
            Candidate(FED, lambda: _fed(text)),
        ]
        return in_milliseconds(await measure(candidates, plan))

    work = f"wait_for over 32 MB in 4 KiB chunks, a {kind}"
    return Row(f"wait-{kind}", work, "ms", ONE_SEARCH, (Aim("≤", times, ONE_SEARCH, minus=FED),), run)


WAIT_ROWS = (
    _wait_row("substring", WAIT_NEEDLE.decode(), re2.escape(WAIT_NEEDLE.decode()), 2),
    _wait_row("regex", PROMPT_REGEX, PROMPT_REGEX, 3),
)

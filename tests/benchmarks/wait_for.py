"""pty_wait_for while 32 MB of text come in pieces of 4 KiB, the match at the very end.

Whoever waits must first be fed, and feeding alone (to disk, through the normaliser, a turn of the loop for each piece) takes
many times longer than the search beside. So the ratio is that of what the wait adds:

    (fed while somebody waits - fed while nobody waits) / one re2 search over all of it

The three times stand in the table as they were measured. There are two rows because re2 has two speeds: it leaps from one
occurrence of a literal's bytes to the next, but has to look at every byte for most other patterns.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import re2

from fixtures.memory_channel import MemoryChannel

from . import flood, scripted
from .contest import OURS, Contestant, Once, Plan, Result, in_milliseconds, measure
from .table import Aim, Row

SIZE = 32_000_000
PIECE_BYTES = 4096
NEEDLE = b"core-sw1#"
#: Without a literal to leap to, and without a `$`: for that re2 would begin at the end of what it has.
PROMPT_REGEX = "(?m)^[a-z0-9-]+[>#]"

FLOOR = "one re2 search"
FED = "feeding alone"


async def _feed(channel: MemoryChannel, text: bytes) -> None:
    """Gives the loop a turn after each piece, as a socket would."""
    for begin in range(0, len(text), PIECE_BYTES):
        channel.feed(text[begin : begin + PIECE_BYTES])
        await asyncio.sleep(0)


@asynccontextmanager
async def _fed(text: bytes) -> AsyncIterator[Once]:
    async def once() -> float:
        async with scripted.session() as (_, channel):
            start = time.perf_counter()
            await _feed(channel, text)
            return time.perf_counter() - start

    yield once


@asynccontextmanager
async def _search(text: bytes, searched: str) -> AsyncIterator[Once]:
    compiled = re2.compile(searched.encode())

    async def once() -> float:
        start = time.perf_counter()
        found = compiled.search(text)
        seconds = time.perf_counter() - start
        assert found is not None
        assert found.end() == len(text)
        return seconds

    yield once


def _row(kind: str, pattern: str, searched: str) -> Row:
    """`pattern` is what the tool is given, `searched` the same as an RE2 pattern."""

    @asynccontextmanager
    async def ours(text: bytes) -> AsyncIterator[Once]:
        async def once() -> float:
            async with scripted.session() as (session, channel):
                waiting = asyncio.create_task(
                    scripted.pty(
                        session, "pty_wait_for", match=pattern, match_type=kind, from_cursor=0, timeout_ms=flood.WAIT_MS
                    )
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
        text = flood.text()[: SIZE - len(NEEDLE) - 1] + b"\n" + NEEDLE
        contestants = [
            Contestant(OURS, lambda: ours(text)),
            Contestant(FLOOR, lambda: _search(text, searched)),
            Contestant(FED, lambda: _fed(text)),
        ]
        return in_milliseconds(await measure(contestants, plan))

    work = f"wait_for over 32 MB in 4 KiB chunks, a {kind}"
    return Row(f"wait-{kind}", work, "ms", FLOOR, (Aim("≤", 3, FLOOR, less=FED),), run)


ROWS = (
    _row("substring", NEEDLE.decode(), re2.escape(NEEDLE.decode())),
    _row("regex", PROMPT_REGEX, PROMPT_REGEX),
)

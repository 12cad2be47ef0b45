"""blocks_search over what 10,000 commands of a device have printed, 2 KB each; the one line that matches is in the last."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import re2

from . import flood, scripted
from .contest import OURS, Contestant, Once, Plan, Result, in_milliseconds, measure
from .table import Aim, Row

BLOCKS = 10_000
BLOCK_BYTES = 2000
NEEDLE = "line protocol is down"
AIM_MS = 50

FLOOR = "one re2 pass"

PROMPT = "core-sw1#"


class _Device:
    """Answers each command with 2 KB of lines, the last command with one more."""

    def __init__(self) -> None:
        count = round(BLOCK_BYTES / len(flood.LINE.format(0)))
        self._output = "".join(flood.LINE.format(number) for number in range(count))
        self._typed = ""

    def answer(self, data: bytes) -> bytes:
        *commands, self._typed = (self._typed + data.decode()).replace("\r\n", "\r").split("\r")
        return "".join(map(self._run, commands)).replace("\n", "\r\n").encode()

    def _run(self, command: str) -> str:
        output = self._output if command else ""
        if command == _command(BLOCKS - 1):
            output += f"GigabitEthernet1/0/47 is down, {NEEDLE} (notconnect)\n"
        return f"{command}\n{output}{PROMPT}"


def _command(number: int) -> str:
    return f"show interfaces {number:05}"


@asynccontextmanager
async def _filled() -> AsyncIterator[tuple[Any, bytes]]:
    """A session with all the blocks, and its spool."""
    async with scripted.session(_Device().answer) as (session, channel):
        channel.feed(PROMPT.encode())
        for number in range(BLOCKS):
            reply = await session.exec(_command(number))
            assert reply.done_reason == "prompt", reply
        spool = b""
        while page := (await scripted.pty(session, "pty_read_spool", from_cursor=len(spool), max_bytes=1 << 22)).data:
            spool += page.encode()
        yield session, spool


async def _run(plan: Plan) -> Result:
    """The session is filled once, not for each contestant: that takes a thousand times as long as a search."""
    async with _filled() as (session, spool):

        @asynccontextmanager
        async def ours() -> AsyncIterator[Once]:
            async def once() -> float:
                start = time.perf_counter()
                reply = await scripted.pty(session, "blocks_search", query=NEEDLE)
                seconds = time.perf_counter() - start
                assert [hit.seq for hit in reply.hits] == [BLOCKS], reply
                return seconds

            yield once

        @asynccontextmanager
        async def bare() -> AsyncIterator[Once]:
            pattern = re2.compile(re2.escape(NEEDLE).encode())

            async def once() -> float:
                start = time.perf_counter()
                found = sum(1 for _ in pattern.finditer(spool))
                seconds = time.perf_counter() - start
                assert found == 1, found
                return seconds

            yield once

        return in_milliseconds(await measure([Contestant(OURS, ours), Contestant(FLOOR, bare)], plan))


WORK = f"blocks_search over {BLOCKS:,} blocks of {BLOCK_BYTES // 1000} KB"
ROW = Row("search-blocks", WORK, "ms", FLOOR, (Aim("≤", AIM_MS),), _run)

"""What a screen costs a session at which nobody looks, and what the first look at it costs after a burst."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from . import flood, ours
from .contest import OURS, Contestant, Once, Plan, Result, in_megabytes_per_second, in_milliseconds, measure
from .table import Aim, Row

WITHOUT = "without a screen"
COLOURED = "\x1b[01;34mdirectory-{:02}\x1b[0m  \x1b[32mtext\x1b[0m and more of it\n"
#: As a PTY gives it: reads of 4 KiB, eight in one turn of the loop.
READ_BYTES = 4096
READS = 8
SIZE = 4_000_000


def _reads(line: str) -> list[bytes]:
    block = "".join(line.format(number) for number in range(48)).replace("\n", "\r\n").encode()
    text = block * (SIZE // len(block))
    return [text[begin : begin + READ_BYTES] for begin in range(0, len(text), READ_BYTES)]


def _without_a_screen() -> AbstractContextManager[object]:
    """Sessions that are opened now do nothing for their screen."""
    stack = ExitStack()
    stack.enter_context(patch("ptyctl.session.io.query_detection.QueryListener.received", lambda listener, raw, data: None))
    stack.enter_context(patch("ptyctl.session.screen.screen.Screen.output_flushed", lambda screen: None))
    return stack


@asynccontextmanager
async def _ingest(reads: list[bytes], how: Callable[[], AbstractContextManager[object]]) -> AsyncIterator[Once]:
    from fixtures.memory_channel import MemoryChannel
    from ptyctl.session.session import Session
    from ptyctl.session.spec import Limits, Spec

    async def once() -> float:
        with how(), TemporaryDirectory() as folder:
            channel = MemoryChannel()
            session = Session("s", Spec(protocol="local"), Path(folder) / "s", Limits())
            await session.connect(channel)
            start = time.perf_counter()
            for begin in range(0, len(reads), READS):
                for data in reads[begin : begin + READS]:
                    channel.feed(data)
                await asyncio.sleep(0)
            seconds = time.perf_counter() - start
            assert session.stream.raw_size == sum(map(len, reads))
            await session.close(force=True)
            return seconds

    yield once


def _ingesting(line: str) -> Callable[[Plan], Awaitable[Result]]:
    async def run(plan: Plan) -> Result:
        reads = _reads(line)
        contestants = [
            Contestant(OURS, lambda: _ingest(reads, nullcontext)),
            Contestant(WITHOUT, lambda: _ingest(reads, _without_a_screen)),
        ]
        return in_megabytes_per_second(await measure(contestants, plan), sum(map(len, reads)))

    return run


@asynccontextmanager
async def _look(path: Path) -> AsyncIterator[Once]:
    async def once() -> float:
        async with ours.session(protocol="local", command=flood.waiting_cat(path)) as session:
            await session.write("\n")
            await session.read(until_idle_ms=10_000, max_bytes=1 << 30, timeout_ms=flood.WAIT_MS)
            start = time.perf_counter()
            shown = await session.screen()
            seconds = time.perf_counter() - start
            assert "line protocol is up" in shown.rows[-2], shown
            return seconds

    yield once


async def _run_look(plan: Plan) -> Result:
    with TemporaryDirectory() as folder:
        path = flood.write_text(Path(folder) / "text")
        return in_milliseconds(await measure([Contestant(OURS, lambda: _look(path))], flood.once_a_turn(plan)))


_AS_FAST = (Aim("≥", 0.97, WITHOUT),)

ROWS = (
    Row(
        "unseen-plain", "ingest plain text in reads of 4 KiB, nobody looking", "MB/s", WITHOUT, _AS_FAST, _ingesting(flood.LINE)
    ),
    Row("unseen-coloured", "the same with colours", "MB/s", WITHOUT, _AS_FAST, _ingesting(COLOURED)),
    Row("look", "first look after 64 MB from a local PTY", "ms", None, (Aim("≤", 100),), _run_look),
)

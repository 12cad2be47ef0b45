"""64 MB over Telnet, from a sender in another process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from . import bare, flood
from .contest import OURS, Contestant, Once, Plan, Result, in_megabytes_per_second, measure
from .streams import count_to_eof, read_until_ends
from .table import Aim, Row
from .telnet_sender import BANNER, sender

FLOOR = "bare telnetlib3"
TUNED = "the same without SLC"


@asynccontextmanager
async def _ours(host: str, port: int, size: int) -> AsyncIterator[Once]:
    async def once() -> float:
        return await flood.session_ingests({"protocol": "telnet", "host": host, "port": port}, size)

    await once()
    yield once


@asynccontextmanager
async def _bare(host: str, port: int, size: int, *, tuned: bool) -> AsyncIterator[Once]:
    async def once() -> float:
        async with bare.telnet(host, port, tuned=tuned) as (reader, writer):
            await read_until_ends(reader, BANNER)
            return await flood.stream_ingests(lambda: writer.write(b"\r\0"), lambda: count_to_eof(reader), size)

    yield once


async def _run(plan: Plan) -> Result:
    with sender() as (host, port):
        text = flood.text("\r\n")
        contestants = [
            Contestant(OURS, lambda: _ours(host, port, len(BANNER) + len(flood.text()))),
            Contestant(FLOOR, lambda: _bare(host, port, len(text), tuned=False)),
            Contestant(TUNED, lambda: _bare(host, port, len(text), tuned=True)),
        ]
        return in_megabytes_per_second(await measure(contestants, flood.once_a_turn(plan)), len(text))


ROW = Row("ingest-telnet", "ingest 64 MB over Telnet", "MB/s", FLOOR, (Aim("≥", 150),), _run)

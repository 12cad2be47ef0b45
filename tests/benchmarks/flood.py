"""64 MB of plain text, and the time to receive it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .measurement import Plan
from .sessions import opened_session, spool_end

LINE = "GigabitEthernet1/0/{:02} is up, line protocol is up (connected), MTU 1500 bytes, full-duplex, 1000Mb/s\n"
SIZE = 64_000_000

WAIT_MS = 55_000
#: How long a flood may take on a busy machine.
RECEIVE_S = 600


def text(end_of_line: str = "\n") -> bytes:
    """Return the same lines each time: about SIZE bytes with LF, one more per line with CR LF."""
    block = "".join(LINE.format(number) for number in range(48))
    return (block * (SIZE // len(block))).replace("\n", end_of_line).encode()


def write_text(path: Path) -> Path:
    """Write the text to a file; return its path."""
    path.write_bytes(text())
    return path


def sizes(path: Path) -> tuple[int, int]:
    """Return the sizes of the PTY output of `cat`, with CR LF (ONLCR), and of the spool; both include the echo of one Enter."""
    content = path.read_bytes()
    return len(content) + content.count(b"\n") + len(b"\r\n"), len(content) + len(b"\n")


def one_call_per_round(plan: Plan) -> Plan:
    """Reduce a plan for long calls: one call per round, at most 5 rounds."""
    return replace(plan, rounds=min(plan.rounds, 5), calls=1)


def waiting_cat(path: Path) -> tuple[str, ...]:
    """Return a command that prints the text after Enter, so that its start is not measured. The echo of Enter precedes it."""
    return ("sh", "-c", 'read -r go && exec cat "$1"', "sh", str(path))


async def time_session_ingest(fields: dict[str, Any], spool_size: int) -> float:
    """Open a session, press Enter, and return the seconds until EOF; the spool must then have `spool_size` bytes."""
    async with opened_session(**fields) as session:
        start = time.perf_counter()
        await session.write("\n")
        await received_all(session)
        seconds = time.perf_counter() - start
        reply = await session.read(cursor=str(spool_size))
        assert reply.eof, reply.model_copy(update={"chunk": "..."})
        assert spool_end(reply) == spool_size, (reply.next_cursor, spool_size)
        return seconds


async def received_all(session: Any) -> None:
    """Wait until the far end has ended."""
    async with asyncio.timeout(RECEIVE_S):
        while (await session.status()).state != "eof":  # noqa: ASYNC110 - a read would copy the output
            await asyncio.sleep(0.002)


async def time_stream_ingest(start: Callable[[], None], count: Callable[[], Awaitable[int]], size: int) -> float:
    """Return the seconds from `start()` until `count()` returns at EOF; it must have counted `size` bytes."""
    begin = time.perf_counter()
    start()
    received = await count()
    seconds = time.perf_counter() - begin
    assert received == size, (received, size)
    return seconds

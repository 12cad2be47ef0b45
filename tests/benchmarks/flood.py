"""64 MB of plain text, and the time to receive it."""

from __future__ import annotations

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
    """Open a session, press Enter, and return the seconds until EOF; the spool must then have `spool_size` bytes.

    The read has a large idle time, because otherwise it would return with the first output.
    """
    async with opened_session(**fields) as session:
        start = time.perf_counter()
        await session.write("\n")
        reply = await session.read(until_idle_ms=10_000, max_bytes=1 << 30, timeout_ms=WAIT_MS)
        seconds = time.perf_counter() - start
        assert reply.eof, reply.model_copy(update={"chunk": "..."})
        assert spool_end(reply) == spool_size, (reply.next_cursor, spool_size)
        return seconds


async def time_stream_ingest(start: Callable[[], None], count: Callable[[], Awaitable[int]], size: int) -> float:
    """Return the seconds from `start()` until `count()` returns at EOF; it must have counted `size` bytes."""
    begin = time.perf_counter()
    start()
    received = await count()
    seconds = time.perf_counter() - begin
    assert received == size, (received, size)
    return seconds

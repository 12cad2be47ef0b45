"""64 MB of plain text, as a far end prints it, and how long it takes until the last byte is in."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import ours
from .contest import Plan

LINE = "GigabitEthernet1/0/{:02} is up, line protocol is up (connected), MTU 1500 bytes, full-duplex, 1000Mb/s\n"
SIZE = 64_000_000

WAIT_MS = 55_000


def text(end_of_line: str = "\n") -> bytes:
    """The same lines each time: about SIZE bytes with LF, and one more a line with CR LF."""
    block = "".join(LINE.format(number) for number in range(48))
    return (block * (SIZE // len(block))).replace("\n", end_of_line).encode()


def write_text(path: Path) -> Path:
    """The text in a file, for `cat`."""
    path.write_bytes(text())
    return path


def sizes(path: Path) -> tuple[int, int]:
    """Bytes that a PTY gives of it, with ONLCR's CR LF for each LF, and that a spool keeps; both with the echo of one Enter."""
    content = path.read_bytes()
    return len(content) + content.count(b"\n") + len(b"\r\n"), len(content) + len(b"\n")


def once_a_turn(plan: Plan) -> Plan:
    """One call is long enough, and a few turns are many."""
    return replace(plan, turns=min(plan.turns, 5), calls=1)


def waiting_cat(path: Path) -> tuple[str, ...]:
    """A program that prints the text once Enter was pressed: its start is not measured. The echo of Enter comes first."""
    return ("sh", "-c", 'read -r go && exec cat "$1"', "sh", str(path))


async def session_ingests(fields: dict[str, Any], spool_size: int) -> float:
    """Seconds until a new session has kept all that follows an Enter; its spool must then hold `spool_size` bytes.

    It waits for the end of file: an idle time is given so that the read is not satisfied by what comes first.
    """
    async with ours.session(**fields) as session:
        start = time.perf_counter()
        await session.write("\n")
        reply = await session.read(until_idle_ms=10_000, max_bytes=1 << 30, timeout_ms=WAIT_MS)
        seconds = time.perf_counter() - start
        assert reply.eof, reply.model_copy(update={"chunk": "..."})
        assert ours.spool_end(reply) == spool_size, (reply.next_cursor, spool_size)
        return seconds


async def stream_ingests(start: Callable[[], None], count: Callable[[], Awaitable[int]], size: int) -> float:
    """Seconds from `start()` until `count()` has met the end of file, having seen `size` bytes."""
    began = time.perf_counter()
    start()
    seen = await count()
    seconds = time.perf_counter() - began
    assert seen == size, (seen, size)
    return seconds

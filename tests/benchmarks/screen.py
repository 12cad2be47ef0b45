"""Rows of the screen model and of sessions whose screen is not read.

Model rows feed a burst of plain text in pieces of 1 MiB, as a session reads it from disk, and redraws, which pyte also draws.
Session rows measure what the screen costs during ingest, and the first snapshot after a burst.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pyte

from fixtures.memory_channel import MemoryChannel
from ptyctl.core.screen import ScreenModel
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits, Spec

from . import flood
from .measurement import OURS, Candidate, Plan, Result, TimedCall, in_megabytes_per_second, in_milliseconds, measure
from .sessions import opened_session
from .table import Aim, Row

COLS, LINES = 120, 40
PIECE_BYTES = 1 << 20
REDRAW_BYTES = 1_000_000
WORDS = ("root", "20", "0", "1.4", "S", "0:02.33", "/usr/sbin/sshd -D", "kworker/u4:1-events")

SCROLLBACK_LINES = 1000

FRAMES_BYTES = 8_000_000

BURST_LIMIT_MS, REDRAW_LIMIT_MS, FRAMES_LIMIT_MS, SECOND_LIMIT_MS, MEMORY_LIMIT_KB = 100, 400, 200, 2, 500
PYTE = "pyte"


def redraws() -> bytes:
    """Return cursor-addressed redraws of parts of the screen, like those of `top`; the same bytes each time."""
    rng, parts, size = random.Random(4), [], 0
    while size < REDRAW_BYTES:
        words = " ".join(rng.choices(WORDS, k=rng.randint(1, 3)))
        position = f"\x1b[{rng.randint(1, LINES)};{rng.randint(1, COLS - 40)}H"
        part = position + f"\x1b[{rng.choice((0, 1, 7, 32, 36))}m{words}" + rng.choice(("", "", "", "\x1b[K"))
        parts.append(part)
        size += len(part)
    return "".join(parts).encode()


def frames() -> bytes:
    """Return full redraws of the alternate screen, like those of a video player in a terminal."""
    rng, parts, size = random.Random(6), ["\x1b[?1049h"], 0
    while size < FRAMES_BYTES:
        rows = (f"\x1b[{row}H\x1b[3{rng.randint(0, 7)}m{'#' * rng.randint(0, COLS)}\x1b[m\x1b[K" for row in range(1, LINES + 1))
        part = "\x1b[?25l" + "".join(rows) + "\x1b[?25h"
        parts.append(part)
        size += len(part)
    return "".join(parts).encode()


def main_frames() -> bytes:
    """Return redraws of the main screen, like those of `top`: an empty line is a row that has not changed."""
    rng, size = random.Random(7), 0
    parts = ["shell\r\n" * LINES, f"\x1b[H\x1b[J\r\n\r\n\x1b[7m{'PID USER':{COLS}}\x1b[m\x0f"]
    while size < FRAMES_BYTES:
        rows = [f"{rng.random()} load", f"\x1b[1m{rng.random()}\x1b[m\x0f total", ""]
        rows += [f"\x1b[1m{' '.join(rng.choices(WORDS, k=5)):{COLS}.{COLS}}\x1b[m\x0f" for _ in range(LINES - 3)]
        part = "\x1b[H" + "\r\n".join(row + "\x1b[K" if row and rng.random() < 0.9 else "" for row in rows)
        parts.append(part)
        size += len(part)
    return "".join(parts).encode()


def bars() -> bytes:
    """Return a coloured progress bar, redrawn in one row of the main screen without erasing it, like that of `pip`."""
    rng, parts, size = random.Random(8), list[str](), 0
    while size < FRAMES_BYTES:
        done = len(parts) % 41
        bar = f"\x1b[32m{'━' * done}\x1b[0m\x1b[90m{'━' * (40 - done)}\x1b[0m"
        part = f"\r   {bar} {done / 4:4.1f}/10.0 MB \x1b[31m{rng.uniform(1, 9):.1f} MB/s\x1b[0m"
        parts.append(part)
        size += len(part.encode())
    return "".join(parts).encode()


def blocks() -> bytes:
    """Return blocks of eight lines that the cursor moves up to redraw, all of them or one, like those of `docker pull`."""
    rng, parts, size = random.Random(9), ["layer\r\n" * 8], 0
    while size < FRAMES_BYTES:
        lines = [f"{rng.getrandbits(48):012x}: Downloading [{'=' * rng.randint(1, 50):50}]" for _ in range(8)]
        up = rng.randint(1, 8)
        part = "\x1b[8A" + "".join(f"\x1b[2K{line}\r\n" for line in lines) + f"\x1b[{up}A\x1b[2K\r{lines[0]}\r\x1b[{up}B"
        parts.append(part)
        size += len(part)
    return "".join(parts).encode()


def _draw(data: bytes) -> ScreenModel:
    model = ScreenModel(COLS, LINES)
    for begin in range(0, len(data), PIECE_BYTES):
        model.feed(data[begin : begin + PIECE_BYTES])
    model.snapshot()
    return model


def _draw_with_pyte(data: bytes) -> None:
    pyte.ByteStream(pyte.Screen(COLS, LINES)).feed(data)


def _candidate(name: str, work: Callable[[], object]) -> Candidate:
    @asynccontextmanager
    async def opened() -> AsyncIterator[TimedCall]:
        async def once() -> float:
            start = time.perf_counter()
            work()
            return time.perf_counter() - start

        yield once

    return Candidate(name, opened)


async def _burst(plan: Plan) -> Result:
    data = flood.text("\r\n")
    return in_milliseconds(await measure([_candidate(OURS, lambda: _draw(data))], flood.one_call_per_round(plan)))


async def _redraw(plan: Plan) -> Result:
    data = redraws()
    candidates = [_candidate(OURS, lambda: _draw(data)), _candidate(PYTE, lambda: _draw_with_pyte(data))]
    return in_milliseconds(await measure(candidates, flood.one_call_per_round(plan)))


def _frames(data: Callable[[], bytes]) -> Callable[[Plan], Awaitable[Result]]:
    async def run(plan: Plan) -> Result:
        drawn = data()
        return in_milliseconds(await measure([_candidate(OURS, lambda: _draw(drawn))], flood.one_call_per_round(plan)))

    return run


async def _second(plan: Plan) -> Result:
    model = _draw(redraws())
    return in_milliseconds(await measure([_candidate(OURS, model.snapshot)], plan))


def _full_screen_kilobytes() -> float:
    """Measure a model whose screens and scrollback are full, with a different style in each cell."""
    rng = random.Random(5)
    row = "".join(f"\x1b[3{rng.randint(0, 7)}m{rng.choice('abcdefgh')}" for _ in range(COLS))
    full = f"{row}\r\n" * (LINES + SCROLLBACK_LINES)
    gc.collect()
    tracemalloc.start()
    model = _draw(f"{full}\x1b[?1049h{full}".encode())
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(model.scrollback(SCROLLBACK_LINES)) == SCROLLBACK_LINES
    return used / 1000


async def _memory(plan: Plan) -> Result:
    return Result({OURS: [_full_screen_kilobytes()]})


MODEL_ROWS = (
    Row("screen-burst", "screen after a 64 MB burst of plain text", "ms", None, (Aim("≤", BURST_LIMIT_MS),), _burst),
    Row(
        "screen-redraws",
        "screen after 1 MB of cursor-addressed redraws",
        "ms",
        None,
        (Aim("≤", REDRAW_LIMIT_MS),),
        _redraw,
    ),
    Row("screen-frames", "screen after 8 MB of whole frames", "ms", None, (Aim("≤", FRAMES_LIMIT_MS),), _frames(frames)),
    Row(
        "screen-main-frames",
        "screen after 8 MB of frames on the main screen",
        "ms",
        None,
        (Aim("≤", FRAMES_LIMIT_MS),),
        _frames(main_frames),
    ),
    Row("screen-bars", "screen after 8 MB of a progress bar", "ms", None, (Aim("≤", FRAMES_LIMIT_MS),), _frames(bars)),
    Row("screen-blocks", "screen after 8 MB of redrawn lines", "ms", None, (Aim("≤", FRAMES_LIMIT_MS),), _frames(blocks)),
    Row(
        "screen-memory",
        "a screen of 120 by 40 and 1,000 lines, all full",
        "KB",
        None,
        (Aim("≤", MEMORY_LIMIT_KB),),
        _memory,
    ),
    Row("screen-second", "screen with nothing new", "ms", None, (Aim("≤", SECOND_LIMIT_MS),), _second),
)


WITHOUT = "without a screen"
COLOURED = "\x1b[01;34mdirectory-{:02}\x1b[0m  \x1b[32mtext\x1b[0m and more of it\n"
#: As from a PTY: reads of 4 KiB, eight per event-loop iteration.
READ_BYTES = 4096
READS = 8
INGEST_BYTES = 4_000_000


def _reads(line: str) -> list[bytes]:
    block = "".join(line.format(number) for number in range(48)).replace("\n", "\r\n").encode()
    text = block * (INGEST_BYTES // len(block))
    return [text[begin : begin + READ_BYTES] for begin in range(0, len(text), READ_BYTES)]


def _without_a_screen() -> AbstractContextManager[object]:
    """Disable the screen of all sessions: query detection and checkpoints."""
    stack = ExitStack()
    stack.enter_context(
        patch("ptyctl.session.screen.terminal_queries.QueryListener.received", lambda listener, raw, data: None)
    )
    stack.enter_context(patch("ptyctl.session.screen.screen.Screen.output_flushed", lambda screen: None))
    return stack


@asynccontextmanager
async def _ingest(reads: list[bytes], patched: Callable[[], AbstractContextManager[object]]) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        with patched(), TemporaryDirectory() as folder:
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


def _ingest_runner(line: str) -> Callable[[Plan], Awaitable[Result]]:
    async def run(plan: Plan) -> Result:
        reads = _reads(line)
        candidates = [
            Candidate(OURS, lambda: _ingest(reads, nullcontext)),
            Candidate(WITHOUT, lambda: _ingest(reads, _without_a_screen)),
        ]
        return in_megabytes_per_second(await measure(candidates, plan), sum(map(len, reads)))

    return run


@asynccontextmanager
async def _first_snapshot(path: Path) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        async with opened_session(protocol="local", command=flood.waiting_cat(path)) as session:
            await session.write("\n")
            await flood.received_all(session)
            start = time.perf_counter()
            shown = await session.screen()
            seconds = time.perf_counter() - start
            assert "line protocol is up" in shown.rows[-2], shown
            return seconds

    yield once


async def _run_first_snapshot(plan: Plan) -> Result:
    with TemporaryDirectory() as folder:
        path = flood.write_text(Path(folder) / "text")
        return in_milliseconds(await measure([Candidate(OURS, lambda: _first_snapshot(path))], flood.one_call_per_round(plan)))


_AS_FAST = (Aim("≥", 0.97, WITHOUT),)

SESSION_ROWS = (
    Row(
        "unseen-plain",
        "ingest plain text in reads of 4 KiB, screen not read",
        "MB/s",
        WITHOUT,
        _AS_FAST,
        _ingest_runner(flood.LINE),
    ),
    Row("unseen-coloured", "the same with colours", "MB/s", WITHOUT, _AS_FAST, _ingest_runner(COLOURED)),
    Row("look", "first snapshot after 64 MB from a local PTY", "ms", None, (Aim("≤", 100),), _run_first_snapshot),
)

"""The screen model by itself: a burst of plain text, redraws of a whole screen, and a look at what was seen before.

The burst comes in pieces of 1 MiB, as a session reads what it has on disk. Redraws address the cursor for each piece of text,
as a program in the manner of top does; pyte draws the same bytes.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pyte

from ptyctl.core.screen import ScreenModel

from . import flood
from .contest import OURS, Contestant, Once, Plan, Result, in_milliseconds, measure
from .table import Aim, Row

COLS, LINES = 120, 40
PIECE_BYTES = 1 << 20
REDRAW_BYTES = 1_000_000
WORDS = ("root", "20", "0", "1.4", "S", "0:02.33", "/usr/sbin/sshd -D", "kworker/u4:1-events")

KEPT_LINES = 1000

FRAMES_BYTES = 8_000_000

BURST_AIM_MS, REDRAW_AIM_MS, FRAMES_AIM_MS, SECOND_AIM_MS, MEMORY_AIM_KB = 100, 400, 200, 2, 300
PYTE = "pyte"


def redraws() -> bytes:
    """The same each time."""
    chance, parts, size = random.Random(4), [], 0
    while size < REDRAW_BYTES:
        words = " ".join(chance.choices(WORDS, k=chance.randint(1, 3)))
        place = f"\x1b[{chance.randint(1, LINES)};{chance.randint(1, COLS - 40)}H"
        part = place + f"\x1b[{chance.choice((0, 1, 7, 32, 36))}m{words}" + chance.choice(("", "", "", "\x1b[K"))
        parts.append(part)
        size += len(part)
    return "".join(parts).encode()


def frames() -> bytes:
    """The whole of the alternate screen drawn anew, again and again, as by what plays a film in a terminal."""
    chance, parts, size = random.Random(6), ["\x1b[?1049h"], 0
    while size < FRAMES_BYTES:
        rows = (
            f"\x1b[{row}H\x1b[3{chance.randint(0, 7)}m{'#' * chance.randint(0, COLS)}\x1b[m\x1b[K"
            for row in range(1, LINES + 1)
        )
        part = "\x1b[?25l" + "".join(rows) + "\x1b[?25h"
        parts.append(part)
        size += len(part)
    return "".join(parts).encode()


def _drawn(data: bytes) -> ScreenModel:
    model = ScreenModel(COLS, LINES)
    for begin in range(0, len(data), PIECE_BYTES):
        model.feed(data[begin : begin + PIECE_BYTES])
    model.snapshot()
    return model


def _by_pyte(data: bytes) -> None:
    pyte.ByteStream(pyte.Screen(COLS, LINES)).feed(data)


def _contestant(name: str, work: Callable[[], object]) -> Contestant:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Once]:
        async def once() -> float:
            start = time.perf_counter()
            work()
            return time.perf_counter() - start

        yield once

    return Contestant(name, opened)


async def _burst(plan: Plan) -> Result:
    data = flood.text("\r\n")
    return in_milliseconds(await measure([_contestant(OURS, lambda: _drawn(data))], flood.once_a_turn(plan)))


async def _redraw(plan: Plan) -> Result:
    data = redraws()
    contestants = [_contestant(OURS, lambda: _drawn(data)), _contestant(PYTE, lambda: _by_pyte(data))]
    return in_milliseconds(await measure(contestants, flood.once_a_turn(plan)))


async def _frames(plan: Plan) -> Result:
    data = frames()
    return in_milliseconds(await measure([_contestant(OURS, lambda: _drawn(data))], flood.once_a_turn(plan)))


async def _second(plan: Plan) -> Result:
    model = _drawn(redraws())
    return in_milliseconds(await measure([_contestant(OURS, model.snapshot)], plan))


def _most_kilobytes() -> float:
    """Both screens and all lines that are kept are full, and every cell has another style than the next."""
    chance = random.Random(5)
    row = "".join(f"\x1b[3{chance.randint(0, 7)}m{chance.choice('abcdefgh')}" for _ in range(COLS))
    full = f"{row}\r\n" * (LINES + KEPT_LINES)
    gc.collect()
    tracemalloc.start()
    model = _drawn(f"{full}\x1b[?1049h{full}".encode())
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(model.scrollback(KEPT_LINES)) == KEPT_LINES
    return taken / 1000


async def _memory(plan: Plan) -> Result:
    return Result({OURS: [_most_kilobytes()]})


ROWS = (
    Row("screen-burst", "screen after a 64 MB burst of plain text", "ms", None, (Aim("≤", BURST_AIM_MS),), _burst),
    Row("screen-redraws", "screen after 1 MB of cursor-addressed redraws", "ms", None, (Aim("≤", REDRAW_AIM_MS),), _redraw),
    Row("screen-frames", "screen after 8 MB of whole frames", "ms", None, (Aim("≤", FRAMES_AIM_MS),), _frames),
    Row("screen-memory", "a screen of 120 by 40 and 1,000 lines, all full", "KB", None, (Aim("≤", MEMORY_AIM_KB),), _memory),
    Row("screen-second", "screen with nothing new", "ms", None, (Aim("≤", SECOND_AIM_MS),), _second),
)

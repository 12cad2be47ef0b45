"""The screen model by itself: a burst of plain text, redraws of a whole screen, and a look at what was seen before.

The burst comes in pieces of 1 MiB, as a session reads what it has on disk. Redraws address the cursor for each piece of text,
as a program in the manner of top does; pyte draws the same bytes.
"""

from __future__ import annotations

import random
import time
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

BURST_AIM_MS, REDRAW_AIM_MS, SECOND_AIM_MS = 100, 400, 2
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


def _drawn(data: bytes) -> ScreenModel:
    model = ScreenModel(COLS, LINES)
    for begin in range(0, len(data), PIECE_BYTES):
        model.feed(data[begin : begin + PIECE_BYTES])
    model.picture()
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


async def _second(plan: Plan) -> Result:
    model = _drawn(redraws())
    return in_milliseconds(await measure([_contestant(OURS, model.picture)], plan))


ROWS = (
    Row("screen-burst", "screen after a 64 MB burst of plain text", "ms", None, (Aim("≤", BURST_AIM_MS),), _burst),
    Row("screen-redraws", "screen after 1 MB of cursor-addressed redraws", "ms", None, (Aim("≤", REDRAW_AIM_MS),), _redraw),
    Row("screen-second", "screen with nothing new", "ms", None, (Aim("≤", SECOND_AIM_MS),), _second),
)

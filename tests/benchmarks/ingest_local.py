"""64 MB from a local PTY: `cat` into the line discipline and out again."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from . import flood
from .contest import OURS, Contestant, Once, Plan, Result, in_megabytes_per_second, measure
from .libraries import pexpect_spawned
from .local_pty import bare_pty, read_to_eof
from .table import Aim, Row

FLOOR = "bare os.read loop"


@asynccontextmanager
async def _ours(path: Path, size: int) -> AsyncIterator[Once]:
    async def once() -> float:
        return await flood.session_ingests({"protocol": "local", "command": flood.waiting_cat(path)}, size)

    await once()
    yield once


@asynccontextmanager
async def _bare(path: Path, size: int) -> AsyncIterator[Once]:
    async def once() -> float:
        with bare_pty(flood.waiting_cat(path)) as master:

            async def count() -> int:
                return read_to_eof(master)

            return await flood.stream_ingests(lambda: _press_enter(master), count, size)

    yield once


def _press_enter(master: int) -> None:
    os.write(master, b"\r")


@asynccontextmanager
async def _pexpect(path: Path, size: int) -> AsyncIterator[Once]:
    async def once() -> float:
        with pexpect_spawned(flood.waiting_cat(path)) as child:

            async def count() -> int:
                return len(child.read())

            return await flood.stream_ingests(lambda: child.send("\r"), count, size)

    with pexpect_spawned(("true",)):
        yield once


async def _run(plan: Plan) -> Result:
    with TemporaryDirectory() as folder:
        path = flood.write_text(Path(folder) / "text")
        on_the_pty, in_the_spool = flood.sizes(path)
        contestants = [
            Contestant(OURS, lambda: _ours(path, in_the_spool)),
            Contestant(FLOOR, lambda: _bare(path, on_the_pty)),
            Contestant("pexpect", lambda: _pexpect(path, on_the_pty)),
        ]
        return in_megabytes_per_second(await measure(contestants, flood.once_a_turn(plan)), on_the_pty)


ROW = Row("ingest-local", "ingest 64 MB from a local PTY", "MB/s", FLOOR, (Aim("≥", 0.85, FLOOR),), _run)

"""64 MB over SSH with a PTY: `cat` behind a real sshd."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from . import bare, flood
from .contest import OURS, Contestant, Once, Plan, Result, in_megabytes_per_second, measure
from .servers import ssh_fields, sshd
from .streams import count_to_eof
from .table import Aim, Row

FLOOR = "bare asyncssh"


@asynccontextmanager
async def _ours(fields: dict[str, Any], command: str, size: int) -> AsyncIterator[Once]:
    async def once() -> float:
        return await flood.session_ingests({**fields, "command": command}, size)

    await once()
    yield once


@asynccontextmanager
async def _bare(fields: dict[str, Any], command: str, size: int) -> AsyncIterator[Once]:
    async def once() -> float:
        async with bare.ssh(fields, command) as process:
            return await flood.stream_ingests(lambda: process.stdin.write(b"\r"), lambda: count_to_eof(process.stdout), size)

    yield once


async def _run(plan: Plan) -> Result:
    with TemporaryDirectory() as folder, sshd() as server:
        path = flood.write_text(Path(folder) / "text")
        command = shlex.join(flood.waiting_cat(path))
        fields = ssh_fields(server)
        on_the_pty, in_the_spool = flood.sizes(path)
        contestants = [
            Contestant(OURS, lambda: _ours(fields, command, in_the_spool)),
            Contestant(FLOOR, lambda: _bare(fields, command, on_the_pty)),
        ]
        return in_megabytes_per_second(await measure(contestants, flood.once_a_turn(plan)), on_the_pty)


ROW = Row("ingest-ssh", "ingest 64 MB over SSH with a PTY", "MB/s", FLOOR, (Aim("≥", 0.9, FLOOR),), _run)

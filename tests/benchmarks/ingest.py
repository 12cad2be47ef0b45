"""Rows ingest-local, ingest-ssh and ingest-telnet: 64 MB from `cat` on a PTY, from `cat` over sshd, and over Telnet."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from . import bare_loops, flood
from .bare_loops import bare_pty, count_pty_to_eof, count_to_eof, read_until_ends
from .libraries import pexpect_spawned
from .measurement import OURS, Candidate, Plan, Result, TimedCall, in_megabytes_per_second, measure
from .servers import ssh_fields, sshd
from .table import Aim, Row
from .telnet_sender import BANNER, sender

BARE_LOCAL = "bare os.read loop"


@asynccontextmanager
async def _local_ours(path: Path, size: int) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        return await flood.time_session_ingest({"protocol": "local", "command": flood.waiting_cat(path)}, size)

    await once()
    yield once


@asynccontextmanager
async def _local_bare(path: Path, size: int) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        with bare_pty(flood.waiting_cat(path)) as master:

            async def count() -> int:
                return count_pty_to_eof(master)

            return await flood.time_stream_ingest(lambda: _press_enter(master), count, size)

    yield once


def _press_enter(master: int) -> None:
    os.write(master, b"\r")


@asynccontextmanager
async def _local_pexpect(path: Path, size: int) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        with pexpect_spawned(flood.waiting_cat(path)) as child:

            async def count() -> int:
                return len(child.read())

            return await flood.time_stream_ingest(lambda: child.send("\r"), count, size)

    with pexpect_spawned(("true",)):
        yield once


async def _local_run(plan: Plan) -> Result:
    with TemporaryDirectory() as folder:
        path = flood.write_text(Path(folder) / "text")
        on_the_pty, in_the_spool = flood.sizes(path)
        candidates = [
            Candidate(OURS, lambda: _local_ours(path, in_the_spool)),
            Candidate(BARE_LOCAL, lambda: _local_bare(path, on_the_pty)),
            Candidate("pexpect", lambda: _local_pexpect(path, on_the_pty)),
        ]
        return in_megabytes_per_second(await measure(candidates, flood.one_call_per_round(plan)), on_the_pty)


LOCAL_ROW = Row("ingest-local", "ingest 64 MB from a local PTY", "MB/s", BARE_LOCAL, (Aim("≥", 0.95, BARE_LOCAL),), _local_run)


BARE_SSH = "bare asyncssh"


@asynccontextmanager
async def _ssh_ours(fields: dict[str, Any], command: str, size: int) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        return await flood.time_session_ingest({**fields, "command": command}, size)

    await once()
    yield once


@asynccontextmanager
async def _ssh_bare(fields: dict[str, Any], command: str, size: int) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        async with bare_loops.ssh(fields, command) as process:
            return await flood.time_stream_ingest(
                lambda: process.stdin.write(b"\r"), lambda: count_to_eof(process.stdout), size
            )

    yield once


async def _ssh_run(plan: Plan) -> Result:
    with TemporaryDirectory() as folder, sshd() as server:
        path = flood.write_text(Path(folder) / "text")
        command = shlex.join(flood.waiting_cat(path))
        fields = ssh_fields(server)
        on_the_pty, in_the_spool = flood.sizes(path)
        candidates = [
            Candidate(OURS, lambda: _ssh_ours(fields, command, in_the_spool)),
            Candidate(BARE_SSH, lambda: _ssh_bare(fields, command, on_the_pty)),
        ]
        return in_megabytes_per_second(await measure(candidates, flood.one_call_per_round(plan)), on_the_pty)


SSH_ROW = Row("ingest-ssh", "ingest 64 MB over SSH with a PTY", "MB/s", BARE_SSH, (Aim("≥", 0.9, BARE_SSH),), _ssh_run)


BARE_TELNET = "bare telnetlib3"
TUNED = "the same without SLC"


@asynccontextmanager
async def _telnet_ours(host: str, port: int, size: int) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        return await flood.time_session_ingest({"protocol": "telnet", "host": host, "port": port}, size)

    await once()
    yield once


@asynccontextmanager
async def _telnet_bare(host: str, port: int, size: int, *, tuned: bool) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        async with bare_loops.telnet(host, port, tuned=tuned) as (reader, writer):
            await read_until_ends(reader, BANNER)
            return await flood.time_stream_ingest(lambda: writer.write(b"\r\0"), lambda: count_to_eof(reader), size)

    yield once


async def _telnet_run(plan: Plan) -> Result:
    with sender() as (host, port):
        text = flood.text("\r\n")
        candidates = [
            Candidate(OURS, lambda: _telnet_ours(host, port, len(BANNER) + len(flood.text()))),
            Candidate(BARE_TELNET, lambda: _telnet_bare(host, port, len(text), tuned=False)),
            Candidate(TUNED, lambda: _telnet_bare(host, port, len(text), tuned=True)),
        ]
        return in_megabytes_per_second(await measure(candidates, flood.one_call_per_round(plan)), len(text))


TELNET_ROW = Row("ingest-telnet", "ingest 64 MB over Telnet", "MB/s", BARE_TELNET, (Aim("≥", 150),), _telnet_run)

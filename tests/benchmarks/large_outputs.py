"""Rows large-*: a large output through exec, a page of a large block, and a daemon that restores a session with much output.

Each row takes less than two minutes with the default sizes. The aims are for the sizes of `--full-size`: 300 MB, 400 MB, 1 GiB.
"""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fixtures.daemons import daemon_folder, end_daemon
from ptyctl.api import ExecRequest, IoRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir

from . import flood
from .measurement import OURS, Candidate, Plan, Result, TimedCall, in_milliseconds, measure
from .sessions import call_pty, opened_session
from .table import Aim, Row

EXEC_BYTES, BLOCK_BYTES, RESTORED_BYTES = 48_000_000, 96_000_000, 128 << 20
FULL_EXEC_BYTES, FULL_BLOCK_BYTES, FULL_RESTORED_BYTES = 300_000_000, 400_000_000, 1 << 30
QUOTA_BYTES = 4 << 30
PAGE_LIMIT_KB, RESTORE_LIMIT_MS = 64 * 1024, 2000
INGEST, EMPTY = "ingest", "without output"
_BASH = ("bash", "--norc", "--noprofile")


def _text_file(folder: str, size: int) -> Path:
    path = Path(folder) / "text"
    text = flood.text()
    with path.open("wb") as file:
        for begin in range(0, size, len(text)):
            file.write(text[: size - begin])
    return path


async def _print_file(session: SessionHandle, path: Path) -> str:
    """Print a file with an exec; return the block's id."""
    reply = await session.exec(f"cat {shlex.quote(str(path))}", timeout_ms=flood.WAIT_MS)
    while reply.timed_out:
        request = {"session_id": session.session_id, "block_id": reply.block_id, "timeout_ms": flood.WAIT_MS}
        reply = await session.controller.exec(ExecRequest.of(request))
    assert reply.exit_code == 0, reply.done_reason
    assert reply.block_id is not None
    return reply.block_id


@asynccontextmanager
async def _exec(path: Path) -> AsyncIterator[TimedCall]:
    async def once() -> float:
        async with opened_session(protocol="local", command=_BASH) as session:
            await session.exec("true")
            start = time.perf_counter()
            await _print_file(session, path)
            return time.perf_counter() - start

    yield once


@asynccontextmanager
async def _ingest(path: Path) -> AsyncIterator[TimedCall]:
    _, in_the_spool = flood.sizes(path)

    async def once() -> float:
        return await flood.time_session_ingest({"protocol": "local", "command": flood.waiting_cat(path)}, in_the_spool)

    yield once


async def _run_exec(plan: Plan) -> Result:
    with TemporaryDirectory() as folder:
        path = _text_file(folder, FULL_EXEC_BYTES if plan.full_size else EXEC_BYTES)
        candidates = [Candidate(OURS, lambda: _exec(path)), Candidate(INGEST, lambda: _ingest(path))]
        return in_milliseconds(await measure(candidates, replace(flood.one_call_per_round(plan), rounds=min(plan.rounds, 3))))


def _memory_kb() -> int:
    """Return the size of this process's memory without mapped files, whose pages the kernel can drop (proc(5))."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))


@contextmanager
def _sampled(sizes: list[float]) -> Iterator[None]:
    """Add the growth of this process's memory during the context, sampled each millisecond."""
    before, ended = _memory_kb(), threading.Event()

    def sample() -> None:
        while not ended.wait(0.001):
            sizes.append(_memory_kb() - before)

    sampling = threading.Thread(target=sample)
    sampling.start()
    try:
        yield
    finally:
        ended.set()
        sampling.join()


async def _run_page(plan: Plan) -> Result:
    """Measure the memory that pages from the start to the end of a block take at most."""
    os.environ["PTYCTL_QUOTA_BYTES"] = str(QUOTA_BYTES)
    with TemporaryDirectory() as folder:
        async with opened_session(protocol="local", command=_BASH) as session:
            size = FULL_BLOCK_BYTES if plan.full_size else BLOCK_BYTES
            block_id = await _print_file(session, _text_file(folder, size))
            sizes = [0.0]
            for offset in range(0, size, size // 5):
                with _sampled(sizes):
                    reply = await call_pty(session, "blocks_read", block_id=block_id, offset=offset)
                assert reply.data
            return Result({OURS: [max(sizes)]})


@asynccontextmanager
async def _restored(size: int) -> AsyncIterator[TimedCall]:
    """Yield a call that kills a daemon whose session has received `size` bytes, and times the next one's first reply."""
    with TemporaryDirectory() as folder, daemon_folder() as runtime:  # the daemon ends before its folder is removed
        program = ("sh", "-c", 'cat "$1"; exec cat', "sh", str(_text_file(folder, size)))
        runtime_dir = RuntimeDir(runtime)
        os.environ["PTYCTL_RUNTIME_DIR"], os.environ["PTYCTL_STATE_DIR"] = str(runtime), f"{folder}/state"
        async with await RemoteController.connect(runtime_dir) as controller:
            session = await SessionHandle.open(controller, protocol="local", command=program)
            printed = await session.read(cursor="0", until_idle_ms=5000, timeout_ms=flood.WAIT_MS, max_bytes=1 << 20)
            while not printed.idle_reached:
                printed = await session.read(until_idle_ms=5000, timeout_ms=flood.WAIT_MS)

        async def once() -> float:
            os.environ["PTYCTL_RUNTIME_DIR"], os.environ["PTYCTL_STATE_DIR"] = str(runtime), f"{folder}/state"
            end_daemon(runtime_dir, signal.SIGKILL)
            start = time.perf_counter()
            async with await RemoteController.connect(runtime_dir) as controller:
                request = {"session_id": session.session_id, "action": "read", "mode": "tail"}
                reply = await controller.io(IoRequest.of(request))
                seconds = time.perf_counter() - start
            assert int(reply.buffer_end_cursor or 0) >= size, reply.buffer_end_cursor
            return seconds

        yield once


async def _run_restore(plan: Plan) -> Result:
    os.environ["PTYCTL_QUOTA_BYTES"] = str(QUOTA_BYTES)
    size = FULL_RESTORED_BYTES if plan.full_size else RESTORED_BYTES
    candidates = [Candidate(OURS, lambda: _restored(size)), Candidate(EMPTY, lambda: _restored(0))]
    return in_milliseconds(await measure(candidates, flood.one_call_per_round(plan)))


ROWS = (
    Row("large-exec", "exec that prints 48 MB; 300 MB with --full-size", "ms", INGEST, (Aim("≤", 1.2, INGEST),), _run_exec),
    Row(
        "large-page",
        "memory for pages of a block of 96 MB; 400 MB with --full-size",
        "KB",
        None,
        (Aim("≤", PAGE_LIMIT_KB),),
        _run_page,
    ),
    Row(
        "large-restore",
        "a killed daemon's session of 128 MiB: start of the next daemon up to the first reply; 1 GiB with --full-size",
        "ms",
        EMPTY,
        (Aim("≤", RESTORE_LIMIT_MS),),
        _run_restore,
    ),
)

"""Rows daemon-*: memory of a daemon with 1,000 idle or 100 busy sessions, and the duration of a read from a busy one.

Row cli-cpu: the processor time of a command of the command line, with the daemon up.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fixtures.daemons import daemon_folder, daemon_pid
from ptyctl.api import IoRequest
from ptyctl.api.handle import SessionHandle
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir

from .measurement import OURS, Plan, Result
from .table import Aim, Row

IDLE, BUSY = 1000, 100
IDLE_LIMIT_KB = 100
#: 20 lines per second, as a busy console.
_BUSY_PROGRAM = "while :; do echo a line of a busy console, as long as most of them are; sleep 0.05; done"
_IDLE_PROGRAM = "echo ready; exec cat"
_READS = 1000
CLI_LIMIT_MS = 120
#: As the installed script.
_CLI = "import sys; from ptyctl.cli import main; sys.exit(main())"
_PYTHON_START = "python start"


@asynccontextmanager
async def _daemon() -> AsyncIterator[tuple[RemoteController, int]]:
    with daemon_folder() as folder:
        os.environ["PTYCTL_RUNTIME_DIR"] = str(folder)
        os.environ["PTYCTL_MAX_SESSIONS"] = str(IDLE + BUSY)
        async with await RemoteController.connect(RuntimeDir(folder)) as controller:
            pid = daemon_pid(RuntimeDir(folder))
            assert pid is not None
            yield controller, pid


async def _open(controller: RemoteController, count: int, program: str) -> list[SessionHandle]:
    handles = []
    for _ in range(count):
        handle = await SessionHandle.open(controller, protocol="local", command=("sh", "-c", program))
        assert (await handle.read(until_regex=r"\n", timeout_ms=30_000)).matched
        handles.append(handle)
    return handles


def _kilobytes(pid: int) -> float:
    """Return the private memory of a process; shared pages do not belong to its sessions."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(float(row.split()[1]) for row in rows if row.startswith(("Private_Clean", "Private_Dirty")))


async def _memory(count: int, program: str) -> Result:
    async with _daemon() as (controller, pid):
        await _open(controller, 3, program)  # allocations that are made only once
        before = _kilobytes(pid)
        await _open(controller, count, program)
        return Result({OURS: [(_kilobytes(pid) - before) / count]})


async def _idle(_plan: Plan) -> Result:
    return await _memory(IDLE, _IDLE_PROGRAM)


async def _busy(_plan: Plan) -> Result:
    return await _memory(BUSY, _BUSY_PROGRAM)


async def _reads(_plan: Plan) -> Result:
    """Measure the 99th percentile of a read through the daemon, in ms, while all busy sessions print."""
    async with _daemon() as (controller, _):
        handles = await _open(controller, BUSY, _BUSY_PROGRAM)
        durations = []
        for number in range(_READS):
            request = IoRequest.of({"session_id": handles[number % BUSY].session_id, "action": "read", "mode": "tail"})
            start = time.perf_counter()
            await controller.io(request)
            durations.append((time.perf_counter() - start) * 1e3)
            await asyncio.sleep(0.002)
        return Result({OURS: [statistics.quantiles(durations, n=100)[98]], "median": [statistics.median(durations)]})


def _cpu_ms(*arguments: str) -> float:
    """Return the processor time of a Python process with these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


async def _cli(plan: Plan) -> Result:
    async with _daemon():
        rounds: dict[str, list[float]] = {OURS: [], _PYTHON_START: []}
        for _ in range(plan.rounds):
            rounds[OURS].append(await asyncio.to_thread(_cpu_ms, "-c", _CLI, "sessions"))
            rounds[_PYTHON_START].append(await asyncio.to_thread(_cpu_ms, "-c", ""))
        return Result(rounds)


ROWS = (
    Row("cli-cpu", "CPU of `ptyctl sessions`, with the daemon up", "ms", _PYTHON_START, (Aim("≤", CLI_LIMIT_MS),), _cli),
    Row("daemon-idle", f"each of {IDLE:,} idle sessions in one daemon", "KB", None, (Aim("≤", IDLE_LIMIT_KB),), _idle),
    Row("daemon-busy", f"each of {BUSY} busy sessions in one daemon", "KB", None, (), _busy),
    Row("daemon-read", f"a read among {BUSY} busy sessions, p99", "ms", None, (), _reads),
)

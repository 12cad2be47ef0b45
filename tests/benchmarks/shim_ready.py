"""How soon `ptyctl mcp` is of use, with the daemon up: from the start of its process to its answer to `initialize`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fixtures.daemons import daemon_folder
from ptyctl.daemon import control
from ptyctl.daemon.runtime_dir import RuntimeDir

from .contest import OURS, Contestant, Once, Plan, Result, in_milliseconds, measure
from .table import Aim, Row

FLOOR = "python -c pass"
AIM_MS = 60

_PROGRAM = Path(sys.executable).with_name("ptyctl")
_CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
_INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _CLIENT}).encode() + b"\n"


def _until_answered() -> float:
    start = time.perf_counter()
    with subprocess.Popen([_PROGRAM, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shim:
        assert shim.stdin is not None
        assert shim.stdout is not None
        shim.stdin.write(_INITIALIZE)
        shim.stdin.flush()
        answer = shim.stdout.readline()
        seconds = time.perf_counter() - start
        shim.stdin.close()
    assert b"serverInfo" in answer
    return seconds


def _started() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - start


@asynccontextmanager
async def _shim() -> AsyncIterator[Once]:
    with daemon_folder() as folder:
        os.environ["PTYCTL_RUNTIME_DIR"] = str(folder)
        control.start(RuntimeDir(folder))
        yield _at_once(_until_answered)


@asynccontextmanager
async def _python() -> AsyncIterator[Once]:
    yield _at_once(_started)


def _at_once(work: Callable[[], float]) -> Once:
    async def once() -> float:
        return work()

    return once


async def _run(plan: Plan) -> Result:
    return in_milliseconds(await measure([Contestant(OURS, _shim), Contestant(FLOOR, _python)], plan))


ROW = Row("shim-ready", "ptyctl mcp until it answers, with the daemon up", "ms", FLOOR, (Aim("≤", AIM_MS),), _run)

"""Rows idle-*: memory of idle sessions by protocol. Each measurement runs in a separate process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from .measurement import OURS, Plan, Result
from .servers import ssh_fields, sshd
from .table import Aim, Row
from .telnet_sender import sender

KILOBYTES = 100
#: Prints once before it waits, to include allocations made at the first byte.
PROGRAM = "echo ready; exec cat"

Fields = dict[str, Any]


@contextmanager
def _local() -> Iterator[Fields]:
    yield {"protocol": "local", "command": ["sh", "-c", PROGRAM]}


@contextmanager
def _ssh() -> Iterator[Fields]:
    with sshd() as server:
        yield {**ssh_fields(server), "command": PROGRAM}


@contextmanager
def _telnet() -> Iterator[Fields]:
    with sender() as (host, port):
        yield {"protocol": "telnet", "host": host, "port": port}


async def _measure_in_process(candidate_name: str, count: int, fields: Fields) -> tuple[float | None, str]:
    """Return the value measured by the process, or the reason of its failure."""
    argv = [sys.executable, "-m", "tests.benchmarks.idle_process", candidate_name, str(count), json.dumps(fields)]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    output, errors = await process.communicate()
    if process.returncode == 0:
        return float(output), ""
    return None, errors.decode().strip().splitlines()[-1]


def _row(protocol: str, count: int, opened: Callable[[], AbstractContextManager[Fields]], library: str) -> Row:
    async def run(_plan: Plan) -> Result:
        result = Result()
        with opened() as fields:
            for name, candidate_name in ((OURS, "ours"), (library, "bare")):
                kilobytes, why = await _measure_in_process(candidate_name, count, fields)
                if kilobytes is None:
                    result.missing[name] = why
                else:
                    result.rounds[name] = [kilobytes]
        return result

    work = f"each of {count:,} idle {protocol} sessions, beyond the bare server"
    return Row(f"idle-{protocol}", work, "KB", library, (Aim("≤", KILOBYTES),), run)


ROWS = (
    _row("local", 1000, _local, "bare PTY"),
    _row("ssh", 100, _ssh, "bare asyncssh"),
    _row("telnet", 200, _telnet, "bare telnetlib3"),
)

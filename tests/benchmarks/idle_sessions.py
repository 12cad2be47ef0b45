"""Memory of sessions that do nothing, by protocol; each measurement in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from .contest import OURS, Plan, Result
from .servers import ssh_fields, sshd
from .table import Aim, Row
from .telnet_sender import sender

KILOBYTES = 100
#: It has printed something, and waits: what is made with the first byte counts too.
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


async def _child(who: str, count: int, fields: Fields) -> tuple[float | None, str]:
    """What the child measured, or why it could not."""
    argv = [sys.executable, "-m", "tests.benchmarks.idle_child", who, str(count), json.dumps(fields)]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    output, errors = await process.communicate()
    if process.returncode == 0:
        return float(output), ""
    return None, errors.decode().strip().splitlines()[-1]


def _row(protocol: str, count: int, opened: Callable[[], AbstractContextManager[Fields]], library: str) -> Row:
    async def run(_plan: Plan) -> Result:
        result = Result()
        with opened() as fields:
            for name, who in ((OURS, "ours"), (library, "bare")):
                kilobytes, why = await _child(who, count, fields)
                if kilobytes is None:
                    result.missing[name] = why
                else:
                    result.turns[name] = [kilobytes]
        return result

    work = f"each of {count:,} idle {protocol} sessions, beyond the bare server"
    return Row(f"idle-{protocol}", work, "KB", library, (Aim("≤", KILOBYTES),), run)


ROWS = (
    _row("local", 1000, _local, "bare PTY"),
    _row("ssh", 100, _ssh, "bare asyncssh"),
    _row("telnet", 200, _telnet, "bare telnetlib3"),
)

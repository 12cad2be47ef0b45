"""Servers that kill themselves with SIGKILL at one step of a request, as processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fixtures.forked_process import ForkedProcess
from ptyctl.controller.call_memory import CallJournal
from ptyctl.controller.local import LocalController
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.terminal.service import ServiceState, TerminalService

#: Rows of a request in the journal: before and after the call that opens the terminal, and the call that runs the command.
ROWS = 4


def request(command: str, *, pty: bool = True) -> dict[str, Any]:
    """Return a request with an id, whose command runs headless."""
    return {
        "action": "execute",
        "correlation": {"request_id": "req_1", "trace_id": "trace_1"},
        "invocation": {"mode": "headless", "intent": "execute_command"},
        "execution": {"command": command, **({} if pty else {"pty": False})},
        "runtime": {"timeout_ms": 50_000},
    }


def daemon_killed_at_row(command: str, number: int, *, after: bool) -> None:
    """Serve the request until the row with this number is written. 0: the command kills the server."""
    append, rows = CallJournal.append, 0

    def count(self: CallJournal, row: bytes, *, sync: bool = False) -> None:
        nonlocal rows
        rows += 1
        if rows == number and not after:
            _die()
        append(self, row, sync=sync)
        if rows == number:
            _die()

    CallJournal.append = count  # type: ignore[assignment, method-assign]

    async def serve() -> None:
        async with LocalController(persistent=True) as controller:
            await TerminalService(controller, ServiceState(), {}, "me").handle(request(command))

    asyncio.run(serve())


def client_killed_at_call(folder: Path, command: str, number: int, *, answered: bool) -> None:
    """Serve the request on the daemon until this durable call was sent, or answered."""
    call, calls = RemoteController._call, 0

    async def count(self: RemoteController, method: str, message: Any, *rest: Any) -> Any:
        nonlocal calls
        is_counted = method == "ptyctl_session_exec" or getattr(message, "action", "") == "open"
        calls += is_counted
        if is_counted and calls == number and not answered:
            asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, _die)  # the message is sent before
        reply = await call(self, method, message, *rest)
        if is_counted and calls == number:
            _die()
        return reply

    RemoteController._call = count  # type: ignore[assignment, method-assign]

    async def serve() -> None:
        async with await RemoteController.connect(RuntimeDir(folder), start=False) as controller:
            await TerminalService(controller, ServiceState(), {}, "me").handle(request(command))

    asyncio.run(serve())


def run_killed(function: Callable[..., None], *arguments: Any) -> int | None:
    """Run one of the servers; return its exit code."""
    with open(os.devnull, "r+b") as null:  # noqa: PTH123 - not a path of the project
        process = ForkedProcess(function, *arguments, files=(null.fileno(), null.fileno(), 2))
        return process.wait(60)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

"""Runs a program beside the event loop for what it prints."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL
from collections.abc import Sequence


async def first_bytes(argv: Sequence[str], limit: int, timeout_s: float) -> tuple[int, bytes]:
    """A program's exit status and the first `limit` bytes of its stdout. It gets no input, and no shell sees its arguments.

    One that does not end in time is killed with all that it started: it has a process group of its own.

    Raises:
        TimeoutError: it has not ended, or something holds its stdout open, after so many seconds.
        OSError, ValueError: it cannot be started.
    """
    loop = asyncio.get_running_loop()
    transport, output = await loop.subprocess_exec(
        lambda: _Output(limit), *argv, stdin=DEVNULL, stderr=DEVNULL, start_new_session=True
    )
    try:
        async with asyncio.timeout(timeout_s):
            await output.ended
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        raise
    finally:
        transport.close()
        await output.exited
    status = transport.get_returncode()
    assert status is not None, "a process that has ended has a status"
    return status, output.kept


class _Output(asyncio.SubprocessProtocol):
    """Takes all that a program prints, so that it is not held up, and keeps the beginning."""

    def __init__(self, limit: int) -> None:
        self.kept = b""
        self._limit = limit
        #: Done once the process is gone; `ended`: and all that hold its stdout are.
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.kept = (self.kept + data)[: self._limit]

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

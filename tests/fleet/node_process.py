"""The process of a node in a test, which reports why it has ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from fixtures.forked_process import ForkedProcess

#: Number of the last lines of the log that are shown when a node ended.
_SHOWN_LINES = 20


class NodeProcess:
    """A node's process, which can be paused, and killed and started again.

    If it ends unexpectedly, its exit status and the end of its log are printed once the test detects it: pytest shows them
    if the test fails.
    """

    def __init__(self, name: str, function: Callable[..., None], arguments: Sequence[object], log: Path) -> None:
        """Create it. The process calls the function with the arguments; its standard error is appended to `log`."""
        self.name = name
        self._function, self._arguments, self._log = function, arguments, log
        self._process: ForkedProcess | None = None
        self._stdin: TextIO | None = None

    async def start(self) -> None:
        """Start it; it must not be running."""
        self._close_input()
        read_end, write_end = os.pipe()
        self._stdin = os.fdopen(write_end, "w", buffering=1)
        with os.fdopen(read_end) as stdin, self._log.open("ab") as log:
            self._process = ForkedProcess(self._function, *self._arguments, files=(stdin.fileno(), log.fileno(), log.fileno()))

    async def restart_ended(self) -> None:
        """Start the node again if it has ended, as it does if the servers do not answer at its start."""
        if self.has_ended():
            print(self.end())
            await self.start()

    def has_ended(self) -> bool:
        """Whether it was started, and does not run any more."""
        return self._process is not None and self._process.returncode is not None

    def end(self) -> str:
        """Return how it ended: its exit status, and the last lines of its log."""
        assert self._process is not None
        status = self._process.returncode
        by = f"by {signal.Signals(-status).name}" if status is not None and status < 0 else f"with exit status {status}"
        with self._log.open(errors="replace") as log:
            return f"node {self.name} ended {by}; the end of its log:\n{''.join(deque(log, _SHOWN_LINES))}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it."""
        assert self._process is not None
        assert not self.has_ended(), self.end()
        self._process.send_signal(number)

    def write(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._stdin is not None
        print(line, file=self._stdin)

    async def kill(self) -> None:
        """Kill it, if it runs."""
        if self.has_ended():
            print(self.end())
        elif self._process is not None:
            self._process.kill()
            await self.wait()
        self._process = None
        self._close_input()

    async def wait(self) -> None:
        """Wait for its end."""
        assert self._process is not None
        await asyncio.to_thread(self._process.wait)

    def _close_input(self) -> None:
        if self._stdin is not None:
            self._stdin.close()

"""A node in a separate process that serves a socket.

Arguments: the URLs of the NATS servers with commas, the name of the node, its state directory, the runtime directory of its
socket, and the file of its inventory. Each line of its standard input is a step of its wall clock in seconds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from tests.controller.local_daemon import served
from tests.fleet.nodes import running_node
from tests.fleet.typing_node import RunningServers


class SteppedClock:
    """Replaces `time.time`."""

    def __init__(self) -> None:
        self._time = time.time
        self.step_s = 0.0

    def __call__(self) -> float:
        return self._time() + self.step_s


async def serve(urls: list[str], name: str, state_dir: Path, runtime_dir: Path, devices: Path) -> None:
    """Serve clients until the standard input ends."""
    clock = SteppedClock()
    time.time = clock
    text = await asyncio.to_thread(devices.read_text)
    async with (
        running_node(RunningServers(urls), name, state_dir, devices=text, replicas=len(urls)) as node,
        served(node.controller, runtime_dir),
    ):
        while line := await asyncio.to_thread(sys.stdin.readline):
            clock.step_s += float(line)


def run(*arguments: str) -> None:
    """Run the node; see the top of the module for the arguments."""
    urls, name, *paths = arguments
    asyncio.run(serve(urls.split(","), name, *map(Path, paths)))

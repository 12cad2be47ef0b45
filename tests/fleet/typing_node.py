"""A node in a separate process that types on a console whenever it owns it.

Arguments: the URLs of the NATS servers with commas, the name of the node, its state directory, the port of the console, and the
file for the tokens whose writes have returned, with their fences. Numbers of tokens continue where the file ends.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from fixtures.servers.nats import NatsCluster
from ptyctl.api.errors import PtyctlError
from ptyctl.api.handle import SessionHandle
from tests.fleet.nodes import RunningNode, running_node

_PAUSE_S = 0.01
#: Delay before a node that does not own the console tries to open it again (seconds).
_RETRY_S = 0.2
#: Numbers that a killed process may have typed without recording them.
_MARGIN = 1000


class RunningServers(NatsCluster):
    """The servers of the test that started this process."""

    def __init__(self, urls: list[str]) -> None:
        super().__init__([])
        self._urls = urls

    @property
    def urls(self) -> list[str]:
        return self._urls


async def type_when_owner(urls: list[str], name: str, state_dir: Path, port: int, record: Path) -> None:
    """Open the console, and type tokens; begin again whenever the console is lost."""
    record.touch()
    recorded = record.read_text().split()
    numbers = itertools.count(int(recorded[-2].partition(".")[2]) + _MARGIN if recorded else 1)
    with record.open("a", buffering=1) as file:
        async with running_node(RunningServers(urls), name, state_dir, replicas=len(urls)) as node:
            while True:
                try:
                    await _type_tokens(node, port, numbers, file)
                except PtyctlError:
                    await asyncio.sleep(_RETRY_S)


async def _type_tokens(node: RunningNode, port: int, numbers: Iterator[int], file: TextIO) -> None:
    # this node's own controller: a forwarded call would type on the other node's line
    handle = await SessionHandle.open(
        node.local, protocol="telnet", host="127.0.0.1", port=port, session_type="console", device_id="line"
    )
    handle.task_id = node.name
    lock = await handle.lock(force=True, reason="test")
    while True:
        token = f"{node.name}.{next(numbers)}"
        await handle.write(f"{token}\n")
        print(token, lock.fence, file=file)
        await asyncio.sleep(_PAUSE_S)


def run(*arguments: str) -> None:
    """Run the node; see the top of the module for the arguments."""
    urls, name, state_dir, port, record = arguments
    asyncio.run(type_when_owner(urls.split(","), name, Path(state_dir), int(port), Path(record)))

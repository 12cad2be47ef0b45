"""A daemon in the test process that serves a controller, and a RemoteController connected to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ptyctl.api import Controller
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.listen_socket import open_listen_socket
from ptyctl.daemon.loop_watchdog import LoopWatchdog
from ptyctl.daemon.runtime_dir import RuntimeDir
from ptyctl.daemon.server import DaemonServer


@asynccontextmanager
async def served(controller: Controller, folder: Path, watchdog: LoopWatchdog | None = None) -> AsyncIterator[RemoteController]:
    """A RemoteController on `controller`; leaving it ends the daemon, and leaves `controller` as it is."""
    runtime_dir = RuntimeDir(folder)
    async with AsyncExitStack() as stack:
        listen_socket = stack.enter_context(open_listen_socket(runtime_dir))
        server = DaemonServer(controller, idle_s=0, is_used=lambda: True, watchdog=watchdog or LoopWatchdog())
        serving = asyncio.create_task(server.serve(listen_socket))
        try:
            async with await RemoteController.connect(runtime_dir, start=False) as remote:
                yield remote
        finally:
            server.stop()
            await serving

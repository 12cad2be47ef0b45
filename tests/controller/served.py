"""A controller behind a daemon's socket, in this process: what the suite speaks with is the remote one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ptyctl.api import Controller
from ptyctl.daemon.client import RemoteController
from ptyctl.daemon.listening import listening
from ptyctl.daemon.place import Place
from ptyctl.daemon.server import Daemon


@asynccontextmanager
async def served(controller: Controller, folder: Path) -> AsyncIterator[RemoteController]:
    """A RemoteController on `controller`; leaving it ends the daemon, and leaves `controller` as it is."""
    place = Place(folder)
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(listening(place))
        daemon = Daemon(controller, idle_s=0, has_sessions=lambda: True)
        serving = asyncio.create_task(daemon.serve(listener))
        try:
            async with await RemoteController.connect(place, start=False) as remote:
                yield remote
        finally:
            daemon.stopped.set()
            await serving

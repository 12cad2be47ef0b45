"""The daemon as a process: `python -m ptyctl.daemon`, started by whoever first needs it, or by a service manager."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from ptyctl.api.controller import Controller
from ptyctl.api.errors import PtyctlError
from ptyctl.controller import LocalController
from ptyctl.controller.settings import load_settings
from ptyctl.mcp.logs import log_to_stderr
from ptyctl.version import __version__
from transports.process import raise_open_file_limit

from .hello import HelloRefused
from .keeping import Keeper
from .listening import Door, listening
from .place import NoPlace, Place
from .server import Daemon
from .starting import SAYS

EXIT_REFUSED = 2


#: Serves the same sessions in another way, beside the socket; its end is the daemon's.
Beside = Callable[[Controller], Coroutine[Any, Any, None]]


def run(beside: Beside | None = None) -> int:
    """Serves until SIGTERM or SIGINT, or until it was of no use for long; says on stderr in one line why it cannot.

    SIGHUP ends it without an end to its sessions, for another one to go on with them.
    """
    log_to_stderr()
    raise_open_file_limit()
    try:
        place = Place()
        with listening(place) as door:
            asyncio.run(_serve(place, door, beside))
    except (NoPlace, HelloRefused, PtyctlError) as error:
        print(f"{SAYS}{error}", file=sys.stderr, flush=True)
        return EXIT_REFUSED
    return 0


async def _serve(place: Place, door: Door, beside: Beside | None) -> None:
    settings = load_settings()
    async with LocalController(settings, keeper=Keeper(place), lasting=True) as controller:
        daemon = Daemon(controller, settings.daemon_idle_s, controller.has_sessions)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, daemon.stopped.set)
        loop.add_signal_handler(signal.SIGHUP, _hand_over, controller)
        _say_ready()
        serving = asyncio.create_task(daemon.serve(door))
        others = [asyncio.create_task(beside(controller))] if beside is not None else []
        done, _ = await asyncio.wait([serving, *others], return_when=asyncio.FIRST_COMPLETED)
        daemon.stopped.set()
        for other in others:
            other.cancel()
        await asyncio.gather(serving, *others, return_exceptions=True)
        for task in done:
            task.result()


def _hand_over(controller: LocalController) -> None:
    """Another daemon is to go on: nothing is closed here, and nothing more is done."""
    controller.flush()
    os._exit(0)


def _say_ready() -> None:
    """To the person at our terminal, or to whoever started us and waits for the end of our standard output. The socket takes
    connections already."""
    with suppress(BrokenPipeError):  # it was ended meanwhile; others may need us all the same
        os.write(sys.stdout.fileno(), f"up: process {os.getpid()}, ptyctl {__version__}\n".encode())
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)

"""`ptyctl demo`: two agents, each a real MCP client, share one console in front of your eyes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from .agent import DemoFailed
from .device import Device, device_of
from .story import tell

_EXIT_FAILED = 1
_EXIT_USAGE = 2


def run(telnet: str | None, username: str | None, password: str | None, enable: str | None) -> int:
    """Plays the demo on the simulated switch, or on the device at `telnet` (HOST:PORT).

    Returns:
        The exit code: 0 when all went as told, 1 when it did not, 2 for options that cannot be.
    """
    console = Console(highlight=False, soft_wrap=True)
    try:
        device = device_of(telnet, username, password, enable)
    except ValueError as error:
        print(f"ptyctl: {error}", file=sys.stderr)
        return _EXIT_USAGE
    failures: list[DemoFailed] = []
    try:
        asyncio.run(_play(device, console))
    except* DemoFailed as group:  # the clients' task groups wrap what is raised within them
        failures = list(_leaves(group))
    for failure in failures:
        console.print("\n[bold red]The demo failed:[/]", escape(str(failure)))
    return _EXIT_FAILED if failures else 0


def serve_switch() -> int:
    """Keeps a simulated switch up for whoever wants to try things on it, until Ctrl-C."""
    from .switch import stay

    asyncio.run(stay())
    return 0


def _leaves(group: BaseExceptionGroup[DemoFailed]) -> Iterator[DemoFailed]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _play(device: Device | None, console: Console) -> None:
    from .stage import served, simulated_switch

    if device is not None:
        async with served() as server:
            await tell(device, server, console, None)
        return
    async with simulated_switch() as (device, switch), served() as server:
        await tell(device, server, console, switch)

"""`ptyctl demo`: two agents, each an MCP client, share one console.

`scenario.py` is the sequence of steps, `agent.py` the agents, `environment.py` the MCP server and the simulated switch. May
import all of ptyctl. Start reading in `scenario.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from .agent import DemoFailed, DemoTarget, parse_target

_EXIT_FAILED = 1
_EXIT_USAGE = 2


def run(telnet: str | None, username: str | None, password: str | None, enable: str | None) -> int:
    """Run the demo on the simulated switch, or on the device at `telnet` (HOST:PORT).

    Returns:
        The exit code: 0 on success, 1 if the demo failed, 2 for invalid options.
    """
    console = Console(highlight=False, soft_wrap=True)
    try:
        target = parse_target(telnet, username, password, enable)
    except ValueError as error:
        print(f"ptyctl: {error}", file=sys.stderr)
        return _EXIT_USAGE
    failures: list[DemoFailed] = []
    try:
        asyncio.run(_run(target, console))
    except* DemoFailed as group:  # the clients' task groups wrap exceptions
        failures = list(_leaves(group))
    for failure in failures:
        console.print("\n[bold red]The demo failed:[/]", escape(str(failure)))
    return _EXIT_FAILED if failures else 0


def serve_switch() -> int:
    """Run a simulated switch until Ctrl-C."""
    from .environment import run_switch

    asyncio.run(run_switch())
    return 0


def _leaves(group: BaseExceptionGroup[DemoFailed]) -> Iterator[DemoFailed]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _run(target: DemoTarget | None, console: Console) -> None:
    from .environment import running_server, simulated_switch
    from .scenario import run_scenario

    if target is not None:
        async with running_server() as server:
            await run_scenario(target, server, console, None)
        return
    async with simulated_switch() as (target, switch), running_server() as server:
        await run_scenario(target, server, console, switch)

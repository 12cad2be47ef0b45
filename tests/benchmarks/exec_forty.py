"""Forty commands on the Telnet VTY of FRR's zebra: nobody should wait longest for ptyctl in any of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from fixtures.servers.frr import Zebra
from fixtures.zebra_commands import ZEBRA_COMMANDS

from . import ours
from .contest import OURS, Plan, Result, Unavailable
from .libraries import netmiko_connection, scrapli_cli
from .servers import zebra
from .table import Aim, Row

#: Of the other two, in each command.
SLOWEST = "the slowest of the others"
EVERYTHING = 1_000_000

Ask = Callable[[str], Awaitable[object]]


@asynccontextmanager
async def _ours(server: Zebra) -> AsyncIterator[Ask]:
    where = {"protocol": "telnet", "host": server.host, "port": server.port, "platform": "frr"}
    async with ours.session(**where, auth={"password": server.password}) as session:
        await session.exec("enable")

        async def ask(command: str) -> object:
            return await session.exec(command, max_output_bytes=EVERYTHING)

        yield ask


@asynccontextmanager
async def _scrapli(server: Zebra) -> AsyncIterator[Ask]:
    with scrapli_cli(server.host, server.port, f"^{server.hostname}[>#] ?$", "telnet", password=server.password) as cli:
        for command in ("enable", "terminal length 0"):
            cli.send_input(input_=command)

        async def ask(command: str) -> object:
            return cli.send_input(input_=command)

        yield ask


@asynccontextmanager
async def _netmiko(server: Zebra) -> AsyncIterator[Ask]:
    device = {"device_type": "cisco_ios_telnet", "host": server.host, "port": server.port, "username": ""}
    with netmiko_connection(**device, password=server.password) as connection:
        connection.send_command_timing("enable")
        connection.set_base_prompt()

        async def ask(command: str) -> object:
            return connection.send_command(command)

        yield ask


async def _run(plan: Plan) -> Result:
    """A turn is a command: in ms, the median of some rounds."""
    result, rounds = Result(), max(3, plan.turns // 2)
    async with AsyncExitStack() as stack:
        server = stack.enter_context(zebra(enable_password=""))
        asked: dict[str, Ask] = {}
        for name, opened in ((OURS, _ours), ("scrapli", _scrapli), ("netmiko", _netmiko)):
            try:
                asked[name] = await stack.enter_async_context(opened(server))
            except Unavailable as error:
                result.missing[name] = str(error)
        for command in ZEBRA_COMMANDS:
            for name, ask in asked.items():
                taken = [await _timed(ask, command) for _ in range(rounds)]
                result.turns.setdefault(name, []).append(statistics.median(taken) * 1e3)
    others = [turns for name, turns in result.turns.items() if name != OURS]
    if others:
        result.turns[SLOWEST] = [max(values) for values in zip(*others, strict=True)]
    return result


async def _timed(ask: Ask, command: str) -> float:
    begun = time.perf_counter()
    await ask(command)
    return time.perf_counter() - begun


AIMS = (Aim("≤", 1, SLOWEST, worst=True),)
ROW = Row("exec-forty", f"exec of {len(ZEBRA_COMMANDS)} commands on a Telnet console (FRR)", "ms", None, AIMS, _run)

"""Rows exec-telnet and exec-forty: commands on the Telnet VTY of FRR's zebra, from prompt to prompt. Rows exec-switch and
exec-switch-forty: the same on the simulated switch, with the platform of its family."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from fixtures.servers.frr import Zebra
from fixtures.zebra_commands import ZEBRA_COMMANDS

from . import bare_loops
from .bare_loops import read_until_ends
from .libraries import netmiko_call, netmiko_connection, scrapli_call, scrapli_cli, scrapli_platform
from .measurement import OURS, Candidate, Plan, Result, TimedCall, Unavailable, in_milliseconds, measure, timed
from .servers import SwitchAddress, switch, zebra
from .sessions import opened_session
from .table import Aim, Row

COMMAND = "show version"
ANSWER = "FRRouting"
FLOOR = "bare telnetlib3"
TUNED = "the same without SLC"


def _prompt(server: Zebra) -> str:
    return f"{server.hostname}> "


@asynccontextmanager
async def _telnet_ours(server: Zebra) -> AsyncIterator[TimedCall]:
    async with opened_session(protocol="telnet", host=server.host, port=server.port) as session:
        await session.read(cursor="0", until_regex="Password: $", timeout_ms=5_000)
        reply = await session.write(server.password + "\n", sensitive=True)
        await session.read(cursor=reply.next_cursor, until_regex=f"{_prompt(server)}$", timeout_ms=5_000)

        async def call() -> str:
            return str((await session.exec(COMMAND)).stdout)

        yield timed(call, ANSWER)


@asynccontextmanager
async def _telnet_bare(server: Zebra, *, tuned: bool) -> AsyncIterator[TimedCall]:
    prompt = _prompt(server).encode()
    async with bare_loops.telnet(server.host, server.port, tuned=tuned) as (reader, writer):
        await read_until_ends(reader, b"Password: ")
        writer.write(server.password.encode() + b"\r\0")
        await read_until_ends(reader, prompt)

        async def call() -> str:
            writer.write(COMMAND.encode() + b"\r\0")
            return (await read_until_ends(reader, prompt)).decode()

        yield timed(call, ANSWER)


@asynccontextmanager
async def _telnet_scrapli(server: Zebra) -> AsyncIterator[TimedCall]:
    prompt = f"^{_prompt(server).rstrip()} ?$"
    async with scrapli_call(server.host, server.port, COMMAND, prompt, "telnet", password=server.password) as call:
        yield timed(call, ANSWER)


@asynccontextmanager
async def _telnet_netmiko(server: Zebra) -> AsyncIterator[TimedCall]:
    # generic_telnet sends Enter at the password prompt until zebra disconnects; the IOS driver logs in.
    fields = {"device_type": "cisco_ios_telnet", "host": server.host, "port": server.port, "password": server.password}
    async with netmiko_call(COMMAND, username="", **fields) as call:
        yield timed(call, ANSWER)


async def _telnet_run(plan: Plan) -> Result:
    with zebra() as server:
        candidates = [
            Candidate(OURS, lambda: _telnet_ours(server)),
            Candidate(FLOOR, lambda: _telnet_bare(server, tuned=False)),
            Candidate(TUNED, lambda: _telnet_bare(server, tuned=True)),
            Candidate("scrapli", lambda: _telnet_scrapli(server)),
            Candidate("netmiko", lambda: _telnet_netmiko(server)),
        ]
        return in_milliseconds(await measure(candidates, plan))


TELNET_AIMS = (Aim("≤", 1.6, FLOOR), Aim("≤", 0.7, "scrapli"))
TELNET_ROW = Row("exec-telnet", f"exec `{COMMAND}` on a Telnet console (FRR)", "ms", FLOOR, TELNET_AIMS, _telnet_run)


MAX_OUTPUT_BYTES = 1_000_000

Send = Callable[[str], Awaitable[object]]


@asynccontextmanager
async def _forty_ours(server: Zebra) -> AsyncIterator[Send]:
    where = {"protocol": "telnet", "host": server.host, "port": server.port, "platform": "frr"}
    async with opened_session(**where, auth={"password": server.password}) as session:
        await session.exec("enable")

        async def send(command: str) -> object:
            return await session.exec(command, max_output_bytes=MAX_OUTPUT_BYTES)

        yield send


@asynccontextmanager
async def _forty_scrapli(server: Zebra) -> AsyncIterator[Send]:
    with scrapli_cli(server.host, server.port, f"^{server.hostname}[>#] ?$", "telnet", password=server.password) as cli:
        for command in ("enable", "terminal length 0"):
            cli.send_input(input_=command)

        async def send(command: str) -> object:
            return cli.send_input(input_=command)

        yield send


@asynccontextmanager
async def _forty_netmiko(server: Zebra) -> AsyncIterator[Send]:
    device = {"device_type": "cisco_ios_telnet", "host": server.host, "port": server.port, "username": ""}
    with netmiko_connection(**device, password=server.password) as connection:
        connection.send_command_timing("enable")
        connection.set_base_prompt()

        async def send(command: str) -> object:
            return connection.send_command(command)

        yield send


async def _forty_run(plan: Plan) -> Result:
    """Measure each command several times; the median, in ms, counts as one round."""
    result, repetitions = Result(), max(3, plan.rounds // 2)
    async with AsyncExitStack() as stack:
        server = stack.enter_context(zebra(enable_password=""))
        senders: dict[str, Send] = {}
        for name, opened in ((OURS, _forty_ours), ("scrapli", _forty_scrapli), ("netmiko", _forty_netmiko)):
            try:
                senders[name] = await stack.enter_async_context(opened(server))
            except Unavailable as error:
                result.missing[name] = str(error)
        for command in ZEBRA_COMMANDS:
            for name, send in senders.items():
                taken = [await _timed(send, command) for _ in range(repetitions)]
                result.rounds.setdefault(name, []).append(statistics.median(taken) * 1e3)
    return result


async def _timed(send: Send, command: str) -> float:
    start = time.perf_counter()
    await send(command)
    return time.perf_counter() - start


FORTY_AIMS = (Aim("≤", 0.8, "scrapli"),)
FORTY_ROW = Row(
    "exec-forty", f"exec of {len(ZEBRA_COMMANDS)} commands on a Telnet console (FRR)", "ms", None, FORTY_AIMS, _forty_run
)


SWITCH_COMMAND = "show version"
SCRAPLI = "scrapli cisco_iosxe"
SWITCH_ANSWER = "Version"
#: Commands with much and with little output, an invalid one, and one without output.
SWITCH_COMMANDS = (
    *("show version", "show interfaces status", "show running-config", "show clock", "show zzz"),
    *("show logging", "show users", "show ip interface brief", "show vlan", "clear logging"),
) * 4


@asynccontextmanager
async def _switch_ours(server: SwitchAddress, platform: str = "cisco_ios") -> AsyncIterator[Send]:
    where = {"protocol": "telnet", "host": server.host, "port": server.port, "platform": platform}
    auth = {"password": server.password, "enable_secret": server.enable_secret}
    async with opened_session(**where, username=server.username, auth=auth) as session:
        if platform == "generic":
            await session.exec("terminal length 0")

        async def send(command: str) -> str:
            return str((await session.exec(command, max_output_bytes=MAX_OUTPUT_BYTES)).stdout)

        yield send


@asynccontextmanager
async def _switch_scrapli(server: SwitchAddress) -> AsyncIterator[Send]:
    login = (server.username, server.password, server.enable_secret)
    with scrapli_platform("cisco_iosxe", server.host, server.port, *login) as cli:

        async def send(command: str) -> str:
            return str(cli.send_input(input_=command).result)

        yield send


@asynccontextmanager
async def _one_command(opened: Callable[[], Any], command: str, answer: str) -> AsyncIterator[TimedCall]:
    async with opened() as send:
        yield timed(partial(send, command), answer)


async def _switch_run(plan: Plan) -> Result:
    with switch() as server:
        candidates = [
            Candidate(name, partial(_one_command, partial(opened, server), SWITCH_COMMAND, SWITCH_ANSWER))
            for name, opened in (
                (OURS, _switch_ours),
                (SCRAPLI, _switch_scrapli),
                ("with generic", partial(_switch_ours, platform="generic")),
            )
        ]
        return in_milliseconds(await measure(candidates, plan))


async def _switch_forty_run(plan: Plan) -> Result:
    """Measure all the commands in each round, in ms."""
    result = Result()
    async with AsyncExitStack() as stack:
        server = stack.enter_context(switch())
        senders: dict[str, Send] = {}
        for name, opened in ((OURS, _switch_ours), (SCRAPLI, _switch_scrapli)):
            try:
                senders[name] = await stack.enter_async_context(opened(server))
            except Unavailable as error:
                result.missing[name] = str(error)
        for _ in range(plan.rounds):
            for name, send in senders.items():
                taken = [await _timed(send, command) for command in SWITCH_COMMANDS]
                result.rounds.setdefault(name, []).append(sum(taken) * 1e3)
    return result


SWITCH_AIMS = (Aim("≤", 4.0, SCRAPLI),)
SWITCH_ROW = Row(
    "exec-switch", f"exec `{SWITCH_COMMAND}` on the simulated switch, cisco_ios", "ms", None, SWITCH_AIMS, _switch_run
)
SWITCH_FORTY_AIMS = (Aim("≤", 4.0, SCRAPLI),)
SWITCH_FORTY_ROW = Row(
    "exec-switch-forty",
    f"exec of {len(SWITCH_COMMANDS)} commands on the simulated switch, cisco_ios",
    "ms",
    None,
    SWITCH_FORTY_AIMS,
    _switch_forty_run,
)

"""`show version` on the Telnet VTY of FRR's zebra, from prompt to prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fixtures.servers.frr import Zebra

from . import bare, ours
from .contest import OURS, Contestant, Once, Plan, Result, in_milliseconds, measure, timed
from .libraries import netmiko_call, scrapli_call
from .servers import zebra
from .streams import read_until_ends
from .table import Aim, Row

COMMAND = "show version"
ANSWER = "FRRouting"
FLOOR = "bare telnetlib3"
TUNED = "the same without SLC"


def _prompt(server: Zebra) -> str:
    return f"{server.hostname}> "


@asynccontextmanager
async def _ours(server: Zebra) -> AsyncIterator[Once]:
    async with ours.session(protocol="telnet", host=server.host, port=server.port) as session:
        await session.read(cursor="0", until_regex="Password: $", timeout_ms=5_000)
        reply = await session.write(server.password + "\n", sensitive=True)
        await session.read(cursor=reply.next_cursor, until_regex=f"{_prompt(server)}$", timeout_ms=5_000)

        async def call() -> str:
            return str((await session.exec(COMMAND)).stdout)

        yield timed(call, ANSWER)


@asynccontextmanager
async def _bare(server: Zebra, *, tuned: bool) -> AsyncIterator[Once]:
    prompt = _prompt(server).encode()
    async with bare.telnet(server.host, server.port, tuned=tuned) as (reader, writer):
        await read_until_ends(reader, b"Password: ")
        writer.write(server.password.encode() + b"\r\0")
        await read_until_ends(reader, prompt)

        async def call() -> str:
            writer.write(COMMAND.encode() + b"\r\0")
            return (await read_until_ends(reader, prompt)).decode()

        yield timed(call, ANSWER)


@asynccontextmanager
async def _scrapli(server: Zebra) -> AsyncIterator[Once]:
    prompt = f"^{_prompt(server).rstrip()} ?$"
    async with scrapli_call(server.host, server.port, COMMAND, prompt, "telnet", password=server.password) as call:
        yield timed(call, ANSWER)


@asynccontextmanager
async def _netmiko(server: Zebra) -> AsyncIterator[Once]:
    # generic_telnet presses Enter at the password prompt until zebra hangs up; the IOS driver gets through.
    fields = {"device_type": "cisco_ios_telnet", "host": server.host, "port": server.port, "password": server.password}
    async with netmiko_call(COMMAND, username="", **fields) as call:
        yield timed(call, ANSWER)


async def _run(plan: Plan) -> Result:
    with zebra() as server:
        contestants = [
            Contestant(OURS, lambda: _ours(server)),
            Contestant(FLOOR, lambda: _bare(server, tuned=False)),
            Contestant(TUNED, lambda: _bare(server, tuned=True)),
            Contestant("scrapli", lambda: _scrapli(server)),
            Contestant("netmiko", lambda: _netmiko(server)),
        ]
        return in_milliseconds(await measure(contestants, plan))


AIMS = (Aim("≤", 2, FLOOR), Aim("≤", 0.8, "scrapli"))
ROW = Row("exec-telnet", f"exec `{COMMAND}` on a Telnet console (FRR)", "ms", FLOOR, AIMS, _run)

"""ptyctl, netmiko and scrapli return the same output for 40 commands on one zebra."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator

import pytest

from fixtures.servers.frr import Zebra, running_zebra
from fixtures.zebra_commands import ZEBRA_COMMANDS
from ptyctl import LocalController, SessionHandle
from tests.benchmarks.libraries import netmiko_connection, scrapli_cli

pytestmark = pytest.mark.waits

Send = Callable[[str], str]


@pytest.fixture(scope="module")
def zebra() -> Iterator[Zebra]:
    """A zebra without an enable password: each library sends it in another way."""
    with running_zebra(enable_password="") as server:
        yield server


@pytest.fixture
def scrapli(zebra: Zebra) -> Iterator[Send]:
    with scrapli_cli(zebra.host, zebra.port, f"^{zebra.hostname}[>#] ?$", "telnet", password=zebra.password) as cli:
        for command in ("enable", "terminal length 0"):
            cli.send_input(input_=command)
        yield lambda command: str(cli.send_input(input_=command).result)


@pytest.fixture
def netmiko(zebra: Zebra) -> Iterator[Send]:
    device = {"device_type": "cisco_ios_telnet", "host": zebra.host, "port": zebra.port, "username": ""}
    with netmiko_connection(**device, password=zebra.password) as connection:
        connection.send_command_timing("enable")
        connection.set_base_prompt()
        yield lambda command: str(connection.send_command(command))


def without_ages(text: str) -> str:
    """Replace the ages of routes, which change between two commands."""
    return re.sub(r"\b\d\d:\d\d:\d\d\b", "hh:mm:ss", text)


def trimmed(text: str) -> list[str]:
    """Trim as scrapli does: blanks at line ends, and empty lines at both ends. netmiko removes only the last newline."""
    return "\n".join(line.rstrip() for line in text.split("\n")).strip().split("\n")


async def test_three_libraries_return_same_output(
    controller: LocalController, zebra: Zebra, scrapli: Send, netmiko: Send
) -> None:
    assert len(set(ZEBRA_COMMANDS)) == 40
    where = {"protocol": "telnet", "host": zebra.host, "port": zebra.port, "platform": "frr"}
    async with await SessionHandle.open(controller, **where, auth={"password": zebra.password}) as session:
        await session.exec("enable")
        for command in ZEBRA_COMMANDS:
            ours = without_ages((await session.exec(command, max_output_bytes=1_000_000)).stdout)
            theirs = [without_ages(await asyncio.to_thread(send, command)) for send in (netmiko, scrapli)]
            assert ours.rstrip("\n") == theirs[0].rstrip("\n"), command
            assert trimmed(ours) == trimmed(theirs[1]), command

"""TelnetChannel against real servers: inetutils' telnetd and FRR's zebra."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.frr import Zebra, running_zebra
from fixtures.servers.telnetd import Telnetd, running_telnetd
from fixtures.telnet import TERMINAL
from transports.channel import Pty
from transports.errors import ChannelEnded
from transports.receiver import QueueReceiver
from transports.telnet import TelnetChannel, TelnetConnectOptions

#: Timeout of every wait, seconds; ample even on a busy machine.
TIMEOUT_S = 120


class Terminal:
    """A channel and its receiver."""

    def __init__(self, channel: TelnetChannel) -> None:
        self.channel = channel
        self.receiver = QueueReceiver()

    async def enter(self, line: bytes = b"") -> None:
        await self.channel.send(line + self.channel.enter)

    async def until(self, wanted: bytes) -> bytes:
        """Return the output up to one that ends with `wanted`."""
        seen = b""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not seen.endswith(wanted):
                    seen += await self.receiver.receive()
        except TimeoutError:
            pytest.fail(f"{wanted!r} did not come, but {seen!r}")
        return seen

    async def run(self, command: bytes, prompt: bytes) -> bytes:
        """Run a command; return its output without echo and prompt."""
        await self.enter(command)
        output = await self.until(prompt)
        assert output.startswith(command + b"\r\n")
        return output.removeprefix(command + b"\r\n").removesuffix(prompt)


@asynccontextmanager
async def terminal(server: Telnetd | Zebra, pty: Pty | None = TERMINAL, **options: Any) -> AsyncIterator[Terminal]:
    channel = TelnetChannel(TelnetConnectOptions(server.host, server.port, **options), pty)
    opened = Terminal(channel)
    await channel.open(opened.receiver)
    try:
        yield opened
    finally:
        await channel.close()


# telnetd


@pytest.fixture
async def telnetd(tmp_path: Path) -> AsyncIterator[Telnetd]:
    async with running_telnetd(tmp_path) as server:
        yield server


async def test_telnetd_has_window_size_before_and_after_resize(telnetd: Telnetd) -> None:
    async with terminal(telnetd) as shell:
        await shell.until(b"$ ")
        assert await shell.run(b"stty size", b"$ ") == b"24 80\r\n"
        for cols, rows in ((132, 50), (255, 255), (65535, 511), (80, 24)):
            shell.channel.resize(cols, rows)
            assert await shell.run(b"stty size", b"$ ") == f"{rows} {cols}\r\n".encode()


async def test_telnetd_receives_terminal_type_and_no_other_variable(telnetd: Telnetd, monkeypatch: pytest.MonkeyPatch) -> None:
    async with terminal(telnetd, Pty(80, 24, "vt220")) as shell:
        await shell.until(b"$ ")
        assert await shell.run(b"echo $TERM $LANG $USER $COLORTERM", b"$ ") == b"vt220\r\n"


@pytest.mark.parametrize("binary", [None, True, False])
async def test_telnetd_enter_gives_one_prompt(telnetd: Telnetd, binary: bool | None) -> None:
    async with terminal(telnetd, binary=binary) as shell:
        await shell.until(b"$ ")
        assert shell.channel.enter == (b"\r\0" if binary is False else b"\r")
        for _ in range(3):
            await shell.enter()
            assert await shell.until(b"$ ") == b"\r\n$ "
        assert await shell.run(b"echo end", b"$ ") == b"end\r\n"


@pytest.mark.parametrize("binary", [None, True, False])
async def test_telnetd_transfers_all_bytes_in_both_directions(telnetd: Telnetd, binary: bool | None) -> None:
    """Without BINARY, telnetd pads a CR with NUL."""
    async with terminal(telnetd, binary=binary) as shell:
        await shell.until(b"$ ")
        await shell.enter(b"stty raw -echo; printf re''ady; head -c 8 | od -An -tx1; printf '<\\377\\377\\rx\\r\\n>'")
        await shell.until(b"ready")
        await shell.channel.send(b"\xff\x01\x7f\xff\xff\x00ab")
        output = await shell.until(b">$ ")
        assert b"ff 01 7f ff ff 00 61 62" in output
        assert output.endswith(b"<\xff\xff\rx\r\n>$ ")


async def test_telnetd_receives_break_as_quit_character(telnetd: Telnetd) -> None:
    async with terminal(telnetd) as shell:
        await shell.until(b"$ ")
        # isig is off: a signal could arrive before the program has started.
        await shell.enter(b"stty -isig -icanon -echo; printf re''ady; head -c 1 | od -An -tx1")
        await shell.until(b"ready")
        await shell.channel.send_break()
        assert await shell.until(b"$ ") == b" 1c\r\n$ "


async def test_telnetd_shell_exit_ends_channel(telnetd: Telnetd) -> None:
    async with terminal(telnetd) as shell:
        await shell.until(b"$ ")
        await shell.enter(b"echo bye; exit")
        with pytest.raises(ChannelEnded):
            await shell.until(b"never")


async def test_telnetd_flood_is_received_completely(telnetd: Telnetd) -> None:
    async with terminal(telnetd) as shell:
        await shell.until(b"$ ")
        output = await shell.run(b"seq 100000", b"$ ")
        assert output == b"".join(b"%d\r\n" % number for number in range(1, 100001))


async def test_telnetd_without_terminal_works(telnetd: Telnetd) -> None:
    async with terminal(telnetd, pty=None) as shell:
        await shell.until(b"$ ")
        assert await shell.run(b"stty size", b"$ ") == b"0 0\r\n"


# zebra


@pytest.fixture(scope="module")
def zebra() -> Iterator[Zebra]:
    with running_zebra("R1") as server:
        yield server


@asynccontextmanager
async def logged_in(zebra: Zebra, pty: Pty | None) -> AsyncIterator[Terminal]:
    async with terminal(zebra, pty) as router:
        assert b"User Access Verification" in await router.until(b"Password: ")
        await router.enter(zebra.password.encode())
        assert await router.until(b"R1> ") == b"\r\nR1> "
        yield router


async def test_zebra_login_and_enable(zebra: Zebra) -> None:
    async with logged_in(zebra, Pty(80, 24)) as router:
        await router.enter(b"enable")
        await router.until(b"Password: ")
        await router.enter(zebra.enable_password.encode())
        assert await router.until(b"R1# ") == b"\r\nR1# "
        assert b"Unknown command: nonsense\r\n" in await router.run(b"nonsense", b"R1# ")


@pytest.mark.parametrize("line_ending", ["auto", "cr", "crlf", "lf"])
async def test_zebra_enter_gives_one_prompt(zebra: Zebra, line_ending: str) -> None:
    async with terminal(zebra, line_ending=line_ending) as router:
        await router.until(b"Password: ")
        await router.enter(zebra.password.encode())
        await router.until(b"R1> ")
        for _ in range(3):
            await router.enter()
        assert await router.until(b"\r\nR1> " * 3) == b"\r\nR1> " * 3
        assert b"FRRouting" in await router.run(b"show version", b"R1> ")


@pytest.mark.parametrize("rows", [10, 5])
async def test_zebra_page_length_follows_window_size(zebra: Zebra, rows: int) -> None:
    async with logged_in(zebra, Pty(80, rows)) as router:
        await router.enter(b"list")
        page = await router.until(b" --More-- ")
        assert page.count(b"\r\n") == rows
        await router.channel.send(b"q")
        erased = await router.until(b"R1> ")
        # zebra pads the pager with NUL, which must be removed.
        assert b"\0" not in page + erased
        router.channel.resize(80, 2 * rows)
        await router.enter(b"list")
        assert (await router.until(b" --More-- ")).count(b"\r\n") == 2 * rows


async def test_zebra_without_window_size_does_not_page(zebra: Zebra) -> None:
    async with logged_in(zebra, None) as router:
        assert b"--More--" not in await router.run(b"list", b"R1> ")


async def test_zebra_three_wrong_passwords_end_channel(zebra: Zebra) -> None:
    async with terminal(zebra) as router:
        for _ in range(3):
            await router.until(b"Password: ")
            await router.enter(b"wrong")
        with pytest.raises(ChannelEnded):
            await router.until(b"Password: ")


async def test_telnetd_serves_many_channels(telnetd: Telnetd) -> None:
    async def converse(name: str) -> None:
        async with terminal(telnetd) as shell:
            await shell.until(b"$ ")
            for number in range(3):
                said = f"{name}-{number}".encode()
                assert await shell.run(b"echo " + said, b"$ ") == said + b"\r\n"

    async with asyncio.timeout(60):
        await asyncio.gather(*(converse(f"line{number}") for number in range(20)))

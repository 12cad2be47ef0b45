"""The simulated switch over SSH, by an asyncssh client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncssh
import pytest

from ptyctl.simulator import Quirks, SimulatedSwitch
from ptyctl.simulator.pager import IOS_PAGER


def practice(**options: object) -> SimulatedSwitch:
    return SimulatedSwitch("sw1", password="pw", enable_secret="en", **options)  # type: ignore[arg-type]


def connect(switch: SimulatedSwitch, password: str = "pw", username: str = "admin", **options: object) -> Any:
    return asyncssh.connect(
        switch.host,
        switch.ssh_port,
        username=username,
        password=password,
        known_hosts=None,
        config=None,
        agent_path=None,
        client_keys=[],
        **options,
    )


class Shell:
    """A shell on the switch."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self.process = process

    async def until(self, end: str) -> str:
        seen = b""
        while not seen.endswith(end.encode()):
            piece = await asyncio.wait_for(self.process.stdout.read(65536), 20)
            assert piece, f"the shell ended after {seen!r}"
            seen += piece
        return seen.decode()

    async def run(self, keys: str, end: str = "sw1#") -> str:
        self.process.stdin.write(keys.encode())
        return await self.until(end)


async def last_words(process: asyncssh.SSHClientProcess[bytes]) -> bytes:
    """Everything that comes before the connection breaks. A shell that ends in order fails."""
    said = b""
    while True:
        try:
            said += await asyncio.wait_for(process.stdout.readexactly(1), 20)
        except asyncssh.ConnectionLost:
            return said


@asynccontextmanager
async def shell(connection: asyncssh.SSHClientConnection, rows: int = 24, **options: object) -> AsyncIterator[Shell]:
    options = options or {"term_type": "vt100", "term_size": (80, rows)}
    async with connection.create_process(encoding=None, **options) as process:
        opened = Shell(process)
        await opened.until("sw1>")
        await opened.run("enable\r", "Password: ")
        await opened.run("en\r")
        yield opened
        process.close()


class TestAuthentication:
    async def test_it_leads_right_to_the_prompt(self) -> None:
        async with practice() as switch, connect(switch) as connection:
            process = await connection.create_process(encoding=None, term_type="vt100")
            assert await Shell(process).until("sw1>") == "\r\nsw1>"
            process.close()

    @pytest.mark.parametrize(("username", "password"), [("admin", "wrong"), ("root", "pw")])
    async def test_wrong_credentials(self, username: str, password: str) -> None:
        async with practice() as switch:
            with pytest.raises(asyncssh.PermissionDenied):
                await connect(switch, password, username)

    async def test_the_third_wrong_password_ends_the_connection(self) -> None:
        class Stubborn(asyncssh.SSHClient):
            tries = 0

            def password_auth_requested(self) -> str:
                self.tries += 1
                return "wrong"

        client = Stubborn()
        async with practice() as switch:
            with pytest.raises(asyncssh.DisconnectError, match="Too many authentication failures"):
                await connect(switch, None, client_factory=lambda: client)  # type: ignore[arg-type]
        assert client.tries == 3

    async def test_any_name_where_the_switch_asks_for_none(self) -> None:
        async with practice(username=None) as switch, connect(switch, username="whoever"):
            pass

    async def test_the_fingerprint_is_the_host_key_s(self) -> None:
        async with practice() as switch, connect(switch) as connection:
            key = connection.get_server_host_key()
            assert key is not None
            assert key.get_fingerprint() == switch.host_key_fingerprint

    async def test_two_switches_have_two_keys(self) -> None:
        async with practice() as one, practice() as two:
            assert one.host_key_fingerprint != two.host_key_fingerprint


class TestSession:
    async def test_the_window_sets_the_page_live(self) -> None:
        async with practice() as switch, connect(switch) as connection, shell(connection, rows=10) as opened:
            assert (await opened.run("show run\r", IOS_PAGER.prompt)).count("\r\n") == 1 + 9
            opened.process.change_terminal_size(80, 6)
            assert (await opened.run(" ", IOS_PAGER.prompt)).count("\r\n") == 5
            assert await opened.run("q") == IOS_PAGER.eraser + "sw1#"

    async def test_without_a_pty(self) -> None:
        async with practice() as switch, connect(switch) as connection, shell(connection, request_pty=False) as opened:
            assert "*Mar" not in await opened.run("show clock\n")

    async def test_a_break_interrupts(self) -> None:
        async with practice(ping_interval=0.001) as switch, connect(switch) as connection, shell(connection) as opened:
            await opened.run("ping 192.0.2.1 repeat 1000000\r", "!")
            opened.process.send_break(250)
            assert "Success rate is" in await opened.until("sw1#")

    async def test_exit_tells_its_status(self) -> None:
        async with practice() as switch, connect(switch) as connection, shell(connection) as opened:
            opened.process.stdin.write(b"exit\r")
            assert await opened.process.stdout.read() == b"exit\r\n"
            await opened.process.wait()
            assert opened.process.exit_status == 0

    async def test_a_command_without_a_shell_is_refused(self) -> None:
        async with practice() as switch, connect(switch) as connection:
            with pytest.raises(asyncssh.ChannelOpenError):
                await connection.create_process("show version", encoding=None)

    async def test_two_shells_of_one_connection(self) -> None:
        async with practice() as switch, connect(switch) as connection, shell(connection) as one, shell(connection) as two:
            first, second = await asyncio.gather(one.run("show clock\r"), two.run("show startup-config | i hostname\r"))
            assert "hostname" not in first
            assert "hostname sw1" in second

    async def test_syslog(self) -> None:
        async with practice() as switch, connect(switch) as connection, shell(connection) as opened:
            await opened.run("terminal monitor\r")
            await switch.syslog("%SYS-5-TEST: hello")
            assert (await opened.until("hello\r\n")).startswith("\r\n*Mar  1 ")


class TestFaults:
    async def test_a_dropped_line(self) -> None:
        async with practice(quirks=Quirks(drop_line_after=2)) as switch:
            connection = await connect(switch)
            process = await connection.create_process(encoding=None, term_type="vt100")
            await Shell(process).run("terminal length 0\r", "sw1>terminal length 0\r\nsw1>")
            process.stdin.write(b"show version\r")
            said = await last_words(process)
            assert said.startswith(b"show version\r\nCisco IOS Software")
            assert b"Configuration register" not in said
            await connection.wait_closed()

    async def test_stopping_ends_whoever_is_connected(self) -> None:
        async with practice() as switch:
            connection = await connect(switch)
        await connection.wait_closed()

    async def test_it_stops_in_the_middle_of_a_handshake(self) -> None:
        async with practice() as switch:
            reader, writer = await asyncio.open_connection(switch.host, switch.ssh_port)
            await reader.readline()
        assert b"SSH-2.0" not in await reader.read()
        writer.close()

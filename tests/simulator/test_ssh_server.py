"""SSH server of the simulated switch, with an asyncssh client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncssh
import pytest

from ptyctl.simulator import Quirks, SimulatedSwitch
from ptyctl.simulator.pager import IOS_PAGER
from tests.simulator.telnet_client import create_switch


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
    """Shell session."""

    def __init__(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self.process = process

    async def until(self, end: str) -> str:
        seen = b""
        while not seen.endswith(end.encode()):
            piece = await asyncio.wait_for(self.process.stdout.read(65536), 120)
            assert piece, f"the shell ended after {seen!r}"
            seen += piece
        return seen.decode()

    async def run(self, keys: str, end: str = "sw1#") -> str:
        self.process.stdin.write(keys.encode())
        return await self.until(end)


async def read_until_lost(process: asyncssh.SSHClientProcess[bytes]) -> bytes:
    """Return the output before the connection is lost. Fails if the shell exits."""
    output = b""
    while True:
        try:
            output += await asyncio.wait_for(process.stdout.readexactly(1), 120)
        except asyncssh.ConnectionLost:
            return output


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
    async def test_login_leads_directly_to_prompt(self) -> None:
        async with create_switch() as switch, connect(switch) as connection:
            process = await connection.create_process(encoding=None, term_type="vt100")
            assert await Shell(process).until("sw1>") == "\r\nsw1>"
            process.close()

    @pytest.mark.parametrize(("username", "password"), [("admin", "wrong"), ("root", "pw")])
    async def test_wrong_credentials_are_rejected(self, username: str, password: str) -> None:
        async with create_switch() as switch:
            with pytest.raises(asyncssh.PermissionDenied):
                await connect(switch, password, username)

    async def test_third_wrong_password_closes_connection(self) -> None:
        class Stubborn(asyncssh.SSHClient):
            tries = 0

            def password_auth_requested(self) -> str:
                self.tries += 1
                return "wrong"

        client = Stubborn()
        async with create_switch() as switch:
            with pytest.raises(asyncssh.DisconnectError, match="Too many authentication failures"):
                await connect(switch, None, client_factory=lambda: client)  # type: ignore[arg-type]
        assert client.tries == 3

    async def test_switch_without_username_accepts_any_name(self) -> None:
        async with create_switch(username=None) as switch, connect(switch, username="whoever"):
            pass

    async def test_host_key_fingerprint_matches_server_key(self) -> None:
        async with create_switch() as switch, connect(switch) as connection:
            key = connection.get_server_host_key()
            assert key is not None
            assert key.get_fingerprint() == switch.host_key_fingerprint

    async def test_each_switch_has_its_own_host_key(self) -> None:
        async with create_switch() as one, create_switch() as two:
            assert one.host_key_fingerprint != two.host_key_fingerprint


class TestSession:
    async def test_window_change_changes_page_size(self) -> None:
        async with create_switch() as switch, connect(switch) as connection, shell(connection, rows=10) as opened:
            assert (await opened.run("show run\r", IOS_PAGER.prompt)).count("\r\n") == 1 + 9
            opened.process.change_terminal_size(80, 6)
            assert (await opened.run(" ", IOS_PAGER.prompt)).count("\r\n") == 5
            assert await opened.run("q") == IOS_PAGER.eraser + "sw1#"

    async def test_shell_without_pty_works(self) -> None:
        async with create_switch() as switch, connect(switch) as connection, shell(connection, request_pty=False) as opened:
            assert "*Mar" not in await opened.run("show clock\n")

    async def test_break_interrupts_command(self) -> None:
        async with create_switch(ping_interval=0.001) as switch, connect(switch) as connection, shell(connection) as opened:
            await opened.run("ping 192.0.2.1 repeat 1000000\r", "!")
            opened.process.send_break(250)
            assert "Success rate is" in await opened.until("sw1#")

    async def test_exit_returns_exit_status(self) -> None:
        async with create_switch() as switch, connect(switch) as connection, shell(connection) as opened:
            opened.process.stdin.write(b"exit\r")
            assert await opened.process.stdout.read() == b"exit\r\n"
            await opened.process.wait()
            assert opened.process.exit_status == 0

    async def test_command_request_is_rejected(self) -> None:
        async with create_switch() as switch, connect(switch) as connection:
            with pytest.raises(asyncssh.ChannelOpenError):
                await connection.create_process("show version", encoding=None)

    async def test_two_shells_of_one_connection_are_independent(self) -> None:
        async with create_switch() as switch, connect(switch) as connection, shell(connection) as one, shell(connection) as two:
            first, second = await asyncio.gather(one.run("show clock\r"), two.run("show startup-config | i hostname\r"))
            assert "hostname" not in first
            assert "hostname sw1" in second

    async def test_syslog_is_shown_after_terminal_monitor(self) -> None:
        async with create_switch() as switch, connect(switch) as connection, shell(connection) as opened:
            await opened.run("terminal monitor\r")
            await switch.syslog("%SYS-5-TEST: hello")
            assert (await opened.until("hello\r\n")).startswith("\r\n*Mar  1 ")


class TestFaults:
    async def test_drop_line_after_breaks_connection(self) -> None:
        async with create_switch(quirks=Quirks(drop_line_after=2)) as switch:
            connection = await connect(switch)
            process = await connection.create_process(encoding=None, term_type="vt100")
            await Shell(process).run("terminal length 0\r", "sw1>terminal length 0\r\nsw1>")
            process.stdin.write(b"show version\r")
            output = await read_until_lost(process)
            assert output.startswith(b"show version\r\nCisco IOS Software")
            assert b"Configuration register" not in output
            await connection.wait_closed()

    async def test_stopped_switch_closes_connections(self) -> None:
        async with create_switch() as switch:
            connection = await connect(switch)
        await connection.wait_closed()

    async def test_switch_stops_during_handshake(self) -> None:
        async with create_switch() as switch:
            reader, writer = await asyncio.open_connection(switch.host, switch.ssh_port)
            await reader.readline()
        assert b"SSH-2.0" not in await reader.read()
        writer.close()

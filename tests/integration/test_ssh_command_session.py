"""Sessions that run one command over SSH, and addresses of servers."""

from __future__ import annotations

import asyncio

import pytest

from fixtures.servers.inprocess_ssh import LoginPolicy, running_ssh_server
from ptyctl import LocalController, SessionHandle
from tests.controller.session_calls import PATIENCE_MS


@pytest.mark.parametrize("ends", [lambda shell: shell.channel.exit(7), lambda shell: shell.channel.exit_with_signal("TERM")])
async def test_status_of_ended_ssh_command_has_its_exit_code(controller: LocalController, ends: object) -> None:
    async with running_ssh_server(LoginPolicy(password="pw"), on_start=ends) as server:
        where = {"protocol": "ssh", "host": server.host, "port": server.port, "username": "admin", "command": "backup"}
        options = {"host_key_policy": "disabled", "use_openssh_config": False}
        handle = await SessionHandle.open(controller, **where, auth={"password": "pw"}, ssh_options=options)
        assert "host key is not checked" in (handle.opened.security_warning or "")
        while not (await handle.read(timeout_ms=PATIENCE_MS)).eof:
            pass
        assert (await handle.status()).exit_code in (7, 128 + 15)
        await handle.close()


@pytest.mark.parametrize("protocol", ["telnet", "ssh"])
async def test_ipv6_address_in_brackets_is_accepted(controller: LocalController, protocol: str) -> None:
    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"not SSH\r\n" * 2)
        writer.close()

    try:
        listening = await asyncio.start_server(refuse, "::1", 0)
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error.strerror}")
    async with listening as server:
        port = server.sockets[0].getsockname()[1]
        if protocol == "telnet":
            async with await SessionHandle.open(controller, protocol="telnet", host="[::1]", port=port) as handle:
                assert "not SSH" in ((await handle.read(timeout_ms=PATIENCE_MS)).chunk or "")
        else:
            with pytest.raises(Exception, match=r"SSH host \[::1\]:\d+"):
                await SessionHandle.open(controller, protocol="ssh", host="[::1]", port=port, username="x")

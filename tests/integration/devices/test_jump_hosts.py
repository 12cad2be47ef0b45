"""A device behind jump hosts of the inventory: each has its own login, and does not receive the password of the device."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from fixtures.servers.inprocess_ssh import USER, FakeSshd, LoginPolicy, running_ssh_server
from ptyctl import LocalController
from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from tests.controller.session_calls import refused, session
from tests.integration.devices.switch_inventory import PASSWORD, SwitchInventory

HOP_PASSWORD = "Marabu-im-Schornstein"

_BEHIND = """
[jump_hosts.first]
host = "127.0.0.1"
port = {first}
username = "{user}"
password = "file:secrets/hop"

[jump_hosts.second]
host = "127.0.0.1"
port = {second}
username = "{user}"
password = "file:secrets/hop"

[devices.sw-behind]
host = "127.0.0.1"
port = {ssh}
protocol = "ssh"
jump = ["first", "second"]
ssh_options = {{ host_key_policy = "accept_new", known_hosts_path = "{known}", use_openssh_config = false }}
"""


@pytest.fixture
async def hops(inventory: SwitchInventory) -> AsyncIterator[list[FakeSshd]]:
    """Two jump hosts, and an inventory device that is reached through both."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(running_ssh_server(LoginPolicy(password=HOP_PASSWORD))) for _ in range(2)]
        first, second = (server.port for server in servers)
        behind = _BEHIND.format(
            first=first, second=second, user=USER, ssh=inventory.switch.ssh_port, known=inventory.folder / "known_hosts"
        )
        inventory.write_devices(telnet=inventory.relay.port, more=behind)
        inventory.write_secret("hop", HOP_PASSWORD)
        yield servers


async def test_device_behind_two_jump_hosts_opens(controller: LocalController, hops: list[FakeSshd]) -> None:
    one = await SessionHandle.open(controller, device="sw-behind")
    assert "switch-001" in (await one.exec("show version")).stdout
    assert [len(server.live) for server in hops] == [1, 1]
    for server in hops:
        assert {secret for _, secret in server.attempts} == {HOP_PASSWORD}
        assert PASSWORD not in str(server.attempts)


async def test_refused_jump_host_is_named_in_error(
    controller: LocalController, inventory: SwitchInventory, hops: list[FakeSshd]
) -> None:
    inventory.write_secret("hop", "not-the-one")
    with refused(ErrorCode.AUTH_FAILED, str(hops[0].port)) as caught:
        await session(controller, "open", device="sw-behind")
    assert "not-the-one" not in f"{caught.value.message} {caught.value.details}"
    assert hops[1].attempts == []

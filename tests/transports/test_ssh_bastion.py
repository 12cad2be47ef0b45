"""Jump hosts: one connection to each, shared by all who go through it, closed when the last one leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from fixtures.receiver import RecordingReceiver
from fixtures.servers.inprocess_ssh import HOST, USER, FakeSshd, LoginPolicy, running_ssh_server
from fixtures.servers.openssh import OpenSshServer, running_sshd
from fixtures.ssh import open_channel, options_for, options_for_sshd
from transports.errors import (
    AuthFailed,
    ChannelEnded,
    ConnectFailed,
    HostKeyMismatch,
)
from transports.ssh import HostKeyOptions, SshAuth, SshChannel, SshConnectionPool, SshConnectOptions, SshJumpHost

PASSWORD = LoginPolicy(password="pw")
AUTH = SshAuth("password", "pw")


@pytest.fixture
async def gate() -> AsyncIterator[FakeSshd]:
    """A jump host."""
    async with running_ssh_server(PASSWORD) as server:
        yield server


@pytest.fixture
async def target() -> AsyncIterator[FakeSshd]:
    async with running_ssh_server(PASSWORD) as server:
        yield server


def hop(server: FakeSshd, auth: SshAuth | None = AUTH) -> SshJumpHost:
    return SshJumpHost(HOST, server.port, USER, auth)


def through(target: FakeSshd, *hops: SshJumpHost, **more: Any) -> SshConnectOptions:
    return options_for(target.port, jump=hops, **more)


async def gone(server: FakeSshd, left: int = 0) -> None:
    """Waits until the server has seen its connections end."""
    await server.wait_until(lambda: len(server.live) == left)


async def test_bastion_connection_is_shared_by_sessions(gate: FakeSshd, target: FakeSshd) -> None:
    connections = SshConnectionPool()
    options = through(target, hop(gate))
    async with AsyncExitStack() as stack:
        opening = [stack.enter_async_context(open_channel(options, connections)) for _ in range(5)]
        channels = await asyncio.gather(*opening)
        assert (gate.connections, target.connections) == (1, 5)
        for number, (channel, receiver) in enumerate(channels):
            await channel.send(b"echo %d" % number)
            assert await receiver.receive_until(b"%d" % number) == b"echo %d" % number
        for channel, _ in channels[:4]:
            await channel.close()
        assert len(gate.live) == 1
        async with open_channel(options, connections):
            assert gate.connections == 1
    await gone(gate)
    async with open_channel(options, connections):
        assert gate.connections == 2
    await gone(gate)
    await gone(target)


async def test_bastion_connection_closes_after_session_exit(gate: FakeSshd, target: FakeSshd) -> None:
    async with open_channel(through(target, hop(gate)), SshConnectionPool()) as (_, receiver):
        target.shells[0].channel.exit(3)
        with pytest.raises(ChannelEnded):
            await receiver.receive()
        await gone(gate)


async def test_bastion_connections_are_separate_by_pool_and_credentials(gate: FakeSshd, target: FakeSshd) -> None:
    connections = SshConnectionPool()
    async with (
        open_channel(through(target, hop(gate)), connections),
        open_channel(through(target, hop(gate)), SshConnectionPool()),
    ):
        assert gate.connections == 2
        with pytest.raises(AuthFailed):
            await SshChannel(through(target, hop(gate, SshAuth("password", "other"))), connections).open(RecordingReceiver())
        assert gate.connections == 3


async def test_bastion_chain_forwards_through_each_host(gate: FakeSshd, target: FakeSshd) -> None:
    async with running_ssh_server(PASSWORD) as inner:
        connections = SshConnectionPool()
        options = through(target, hop(gate), hop(inner))
        async with (
            open_channel(options, connections),
            open_channel(options, connections),
            open_channel(through(inner, hop(gate)), connections),
        ):
            assert (gate.connections, inner.connections, target.connections) == (1, 2, 2)
            assert gate.forwards == [(HOST, inner.port)] * 2
            assert inner.forwards == [(HOST, target.port)] * 2
        await gone(gate)
        await gone(inner)


async def test_bastion_never_receives_target_password(gate: FakeSshd, target: FakeSshd) -> None:
    with pytest.raises(AuthFailed, match="rejected the login") as caught:
        await SshChannel(through(target, hop(gate, None))).open(RecordingReceiver())
    assert f"jump host {HOST}:{gate.port}" in caught.value.message
    assert "give the jump host separate credentials" in (caught.value.hint or "")
    assert not gate.attempts


async def test_bastion_login_tries_target_key(target: FakeSshd) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    auth = SshAuth("auto", "pw", key.export_private_key().decode())
    async with (
        running_ssh_server(LoginPolicy(key=key)) as gate,
        open_channel(through(target, hop(gate, None), auth=auth), SshConnectionPool()),
    ):
        assert gate.connections == 1


async def test_bastion_route_comes_from_configuration(gate: FakeSshd, target: FakeSshd, tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(tmp_path / "gate_key")
    known = gate.write_known_hosts(tmp_path / "known")
    target.write_known_hosts(tmp_path / "known")
    gate.login = LoginPolicy(key=key)
    config = tmp_path / "config"
    config.write_text(
        f"UserKnownHostsFile {known}\n"
        f"Host sw1\n HostName {HOST}\n Port {target.port}\n User {USER}\n ProxyJump gate\n"
        f"Host gate\n HostName {HOST}\n Port {gate.port}\n User {USER}\n IdentityFile {tmp_path}/gate_key\n"
    )
    options = SshConnectOptions("sw1", auth=SshAuth("auto", "pw"), config_path=str(config))
    async with open_channel(options, SshConnectionPool()) as (channel, receiver):
        await channel.send(b"hello")
        assert await receiver.receive_until(b"hello") == b"hello"
        assert gate.forwards == [(HOST, target.port)]


async def test_bastion_host_key_is_checked(gate: FakeSshd, target: FakeSshd, tmp_path: Path) -> None:
    known = target.write_known_hosts(tmp_path / "known")
    with pytest.raises(HostKeyMismatch) as caught:
        await SshChannel(through(target, hop(gate), host_keys=HostKeyOptions(known_hosts_path=known))).open(RecordingReceiver())
    assert caught.value.details["port"] == gate.port
    assert caught.value.details["reason"] == "unknown"
    gate.write_known_hosts(tmp_path / "known")
    async with open_channel(through(target, hop(gate), host_keys=HostKeyOptions(known_hosts_path=known)), SshConnectionPool()):
        pass


async def test_bastion_that_cannot_reach_target_raises_connect_failed(gate: FakeSshd, target: FakeSshd) -> None:
    connections = SshConnectionPool()
    async with open_channel(through(target, hop(gate)), connections):
        with pytest.raises(ConnectFailed, match="through jump host"):
            await SshChannel(through(FakeSshd(1, target.host_key, PASSWORD), hop(gate)), connections).open(RecordingReceiver())
        assert len(gate.live) == 1
    await gone(gate)


@pytest.fixture(scope="module")
def sshd() -> Iterator[OpenSshServer]:
    with running_sshd() as server:
        yield server


async def test_bastion_sshd_accepts_one_connection_for_all_sessions(sshd: OpenSshServer) -> None:
    jump = (SshJumpHost(sshd.host, sshd.port, sshd.username),)
    options = options_for_sshd(sshd, jump=jump, command="read line; echo $line; exit 5")
    connections = SshConnectionPool()
    async with AsyncExitStack() as stack:
        channels = await asyncio.gather(*(stack.enter_async_context(open_channel(options, connections)) for _ in range(4)))
        for channel, receiver in channels:
            await channel.send(b"through\r")
            await receiver.receive_until(b"through\r\nthrough\r\n")
            with pytest.raises(ChannelEnded):
                await receiver.receive()
            assert channel.exit_status is not None
            assert channel.exit_status.code == 5
    # The jump host is the target too: one connection to it, and four through it.
    await asyncio.to_thread(sshd.wait_for_log, "Received disconnect")
    assert sshd.count_log("Accepted publickey") == 5

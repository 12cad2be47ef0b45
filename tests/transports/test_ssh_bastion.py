"""Jump hosts: one connection to each, shared by all who go through it, closed when the last one leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from fixtures.servers.inprocess_ssh import HOST, USER, InProcessSsh, Login, running_ssh_server
from fixtures.servers.openssh import OpenSshServer, running_sshd
from fixtures.ssh import Recorder, opened, options_for, options_for_sshd
from transports.errors import (
    AuthFailed,
    ChannelEnded,
    ConnectFailed,
    HostKeyMismatch,
)
from transports.ssh import HostKeyOptions, SshAuth, SshChannel, SshConnectionPool, SshConnectOptions, SshJumpHost

PASSWORD = Login(password="pw")
AUTH = SshAuth("password", "pw")


@pytest.fixture
async def gate() -> AsyncIterator[InProcessSsh]:
    """A jump host."""
    async with running_ssh_server(PASSWORD) as server:
        yield server


@pytest.fixture
async def target() -> AsyncIterator[InProcessSsh]:
    async with running_ssh_server(PASSWORD) as server:
        yield server


def hop(server: InProcessSsh, auth: SshAuth | None = AUTH) -> SshJumpHost:
    return SshJumpHost(HOST, server.port, USER, auth)


def through(target: InProcessSsh, *hops: SshJumpHost, **more: Any) -> SshConnectOptions:
    return options_for(target.port, jump=hops, **more)


async def gone(server: InProcessSsh, left: int = 0) -> None:
    """Waits until the server has seen its connections end."""
    await server.wait_until(lambda: len(server.live) == left)


async def test_sessions_share_the_connection_to_a_jump_host(gate: InProcessSsh, target: InProcessSsh) -> None:
    connections = SshConnectionPool()
    options = through(target, hop(gate))
    async with AsyncExitStack() as stack:
        opening = [stack.enter_async_context(opened(options, connections)) for _ in range(5)]
        channels = await asyncio.gather(*opening)
        assert (gate.connections, target.connections) == (1, 5)
        for number, (channel, receiver) in enumerate(channels):
            await channel.send(b"echo %d" % number)
            assert await receiver.receive_until(b"%d" % number) == b"echo %d" % number
        for channel, _ in channels[:4]:
            await channel.close()
        assert len(gate.live) == 1
        async with opened(options, connections):
            assert gate.connections == 1
    await gone(gate)
    async with opened(options, connections):
        assert gate.connections == 2
    await gone(gate)
    await gone(target)


async def test_a_session_that_ends_by_itself_leaves_the_jump_host(gate: InProcessSsh, target: InProcessSsh) -> None:
    async with opened(through(target, hop(gate)), SshConnectionPool()) as (_, receiver):
        target.shells[0].channel.exit(3)
        with pytest.raises(ChannelEnded):
            await receiver.receive()
        await gone(gate)


async def test_pools_and_credentials_are_not_mixed(gate: InProcessSsh, target: InProcessSsh) -> None:
    connections = SshConnectionPool()
    async with opened(through(target, hop(gate)), connections), opened(through(target, hop(gate)), SshConnectionPool()):
        assert gate.connections == 2
        with pytest.raises(AuthFailed):
            await SshChannel(through(target, hop(gate, SshAuth("password", "other"))), connections).open(Recorder())
        assert gate.connections == 3


async def test_a_chain_of_jump_hosts(gate: InProcessSsh, target: InProcessSsh) -> None:
    async with running_ssh_server(PASSWORD) as inner:
        connections = SshConnectionPool()
        options = through(target, hop(gate), hop(inner))
        async with opened(options, connections), opened(options, connections), opened(through(inner, hop(gate)), connections):
            assert (gate.connections, inner.connections, target.connections) == (1, 2, 2)
            assert gate.forwards == [(HOST, inner.port)] * 2
            assert inner.forwards == [(HOST, target.port)] * 2
        await gone(gate)
        await gone(inner)


async def test_the_targets_password_is_not_sent_to_the_jump_host(gate: InProcessSsh, target: InProcessSsh) -> None:
    with pytest.raises(AuthFailed, match="rejected the login") as caught:
        await SshChannel(through(target, hop(gate, None))).open(Recorder())
    assert f"jump host {HOST}:{gate.port}" in caught.value.message
    assert "give the jump host separate credentials" in (caught.value.hint or "")
    assert not gate.attempts


async def test_the_targets_key_is_tried_at_the_jump_host(target: InProcessSsh) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    auth = SshAuth("auto", "pw", key.export_private_key().decode())
    async with (
        running_ssh_server(Login(key=key)) as gate,
        opened(through(target, hop(gate, None), auth=auth), SshConnectionPool()),
    ):
        assert gate.connections == 1


async def test_hops_come_from_the_configuration(gate: InProcessSsh, target: InProcessSsh, tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(tmp_path / "gate_key")
    known = gate.write_known_hosts(tmp_path / "known")
    target.write_known_hosts(tmp_path / "known")
    gate.login = Login(key=key)
    config = tmp_path / "config"
    config.write_text(
        f"UserKnownHostsFile {known}\n"
        f"Host sw1\n HostName {HOST}\n Port {target.port}\n User {USER}\n ProxyJump gate\n"
        f"Host gate\n HostName {HOST}\n Port {gate.port}\n User {USER}\n IdentityFile {tmp_path}/gate_key\n"
    )
    options = SshConnectOptions("sw1", auth=SshAuth("auto", "pw"), config_path=str(config))
    async with opened(options, SshConnectionPool()) as (channel, receiver):
        await channel.send(b"hello")
        assert await receiver.receive_until(b"hello") == b"hello"
        assert gate.forwards == [(HOST, target.port)]


async def test_the_host_key_of_a_jump_host_is_checked(gate: InProcessSsh, target: InProcessSsh, tmp_path: Path) -> None:
    known = target.write_known_hosts(tmp_path / "known")
    with pytest.raises(HostKeyMismatch) as caught:
        await SshChannel(through(target, hop(gate), host_keys=HostKeyOptions(known_hosts_path=known))).open(Recorder())
    assert caught.value.details["port"] == gate.port
    assert caught.value.details["reason"] == "unknown"
    gate.write_known_hosts(tmp_path / "known")
    async with opened(through(target, hop(gate), host_keys=HostKeyOptions(known_hosts_path=known)), SshConnectionPool()):
        pass


async def test_a_target_that_the_jump_host_cannot_reach(gate: InProcessSsh, target: InProcessSsh) -> None:
    connections = SshConnectionPool()
    async with opened(through(target, hop(gate)), connections):
        with pytest.raises(ConnectFailed, match="through jump host"):
            await SshChannel(through(InProcessSsh(1, target.host_key, PASSWORD), hop(gate)), connections).open(Recorder())
        assert len(gate.live) == 1
    await gone(gate)


@pytest.fixture(scope="module")
def sshd() -> Iterator[OpenSshServer]:
    with running_sshd() as server:
        yield server


async def test_a_real_jump_host_counts_one_connection(sshd: OpenSshServer) -> None:
    jump = (SshJumpHost(sshd.host, sshd.port, sshd.username),)
    options = options_for_sshd(sshd, jump=jump, command="read line; echo $line; exit 5")
    connections = SshConnectionPool()
    async with AsyncExitStack() as stack:
        channels = await asyncio.gather(*(stack.enter_async_context(opened(options, connections)) for _ in range(4)))
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

"""Jump hosts: one shared connection to each, closed after its last user; faults and cancellations."""

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
from fixtures.servers.relay import Relay
from fixtures.ssh import open_channel, options_for, options_for_sshd
from tests.session.scripted_session import wait_until
from transports.errors import (
    AuthFailed,
    ChannelBroken,
    ChannelClosed,
    ChannelEnded,
    ConnectFailed,
    ConnectTimeout,
    HostKeyMismatch,
)
from transports.ssh import HostKeyOptions, SshAuth, SshChannel, SshConnectionPool, SshConnectOptions, SshJumpHost

PASSWORD = LoginPolicy(password="pw")
AUTH = SshAuth("password", "pw")


@pytest.fixture
async def gate() -> AsyncIterator[FakeSshd]:
    """Run a jump host."""
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
    """Wait until the server has only `left` open connections."""
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
    # The jump host is also the target: one connection to it, and four through it.
    await asyncio.to_thread(sshd.wait_for_log, "Received disconnect")
    assert sshd.count_log("Accepted publickey") == 5


# Faults and cancellation


async def all_tasks_ended() -> None:
    """Wait until all other tasks have ended; a leaked task makes the test time out."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


async def test_bastion_failure_fails_all_waiting_opens_and_allows_retry(gate: FakeSshd, target: FakeSshd) -> None:
    connections = SshConnectionPool()
    gate.login = LoginPolicy(password="later")
    options = through(target, hop(gate))
    opens = [SshChannel(options, connections).open(RecordingReceiver()) for _ in range(3)]
    errors = await asyncio.gather(*opens, return_exceptions=True)
    assert [type(error) for error in errors] == [AuthFailed] * 3
    assert gate.connections == 1
    gate.login = PASSWORD
    async with open_channel(options, connections):
        assert gate.connections == 2


async def test_bastion_that_is_silent_raises_connect_timeout(target: FakeSshd) -> None:
    held: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with await asyncio.start_server(hold, HOST, 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        options = through(target, SshJumpHost(HOST, port, USER, AUTH), connect_timeout_s=2)
        connections = SshConnectionPool()
        opens = [SshChannel(options, connections).open(RecordingReceiver()) for _ in range(2)]
        errors = await asyncio.gather(*opens, return_exceptions=True)
        for writer in held:
            writer.close()
    assert len(held) == 1
    assert all(isinstance(error, ConnectTimeout) and f"jump host {HOST}:{port}" in error.message for error in errors)
    await all_tasks_ended()


async def test_bastion_cancelled_open_does_not_affect_other_opens(gate: FakeSshd, target: FakeSshd) -> None:
    async with Relay(gate.port) as relay:
        relay.freeze()
        connections = SshConnectionPool()
        options = through(target, SshJumpHost(HOST, relay.port, USER, AUTH))
        channels = [SshChannel(options, connections) for _ in range(2)]
        opens = [asyncio.ensure_future(channel.open(RecordingReceiver())) for channel in channels]
        await gate.wait_until(lambda: gate.connections == 1)
        await wait_until(lambda: [each._users for each in connections._bastions.values()] == [2])
        opens[0].cancel()
        await asyncio.wait(opens[:1])
        assert opens[0].cancelled()
        relay.thaw()
        await opens[1]
        assert gate.connections == 1
        for channel in channels:
            await channel.close()
        await gone(gate)


async def test_bastion_with_all_opens_cancelled_releases_everything(gate: FakeSshd, target: FakeSshd) -> None:
    async with Relay(gate.port) as relay:
        relay.freeze()
        connections = SshConnectionPool()
        options = through(target, SshJumpHost(HOST, relay.port, USER, AUTH), hop(gate))
        opens = [asyncio.ensure_future(SshChannel(options, connections).open(RecordingReceiver())) for _ in range(2)]
        await gate.wait_until(lambda: gate.connections == 1)
        for one in opens:
            one.cancel()
        await asyncio.wait(opens)
        assert all(one.cancelled() for one in opens)
        relay.thaw()
        await gone(gate)
    await all_tasks_ended()


async def test_bastion_channel_granted_after_cancel_is_closed(target: FakeSshd) -> None:
    """asyncssh drops the request of a cancelled open, and the jump host would keep its connection to the target."""
    asked, granted = asyncio.Event(), asyncio.Event()

    class SlowGate(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return False

        def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> Any:
            asked.set()
            return True if granted.is_set() else self._later(conn_of[self], dest_host, dest_port)

        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            conn_of[self] = conn

        async def _later(self, conn: asyncssh.SSHServerConnection, host: str, port: int) -> Any:
            await granted.wait()
            return await conn.forward_connection(host, port)

    conn_of: dict[asyncssh.SSHServer, asyncssh.SSHServerConnection] = {}
    granted.set()
    key = target.host_key
    acceptor = await asyncssh.listen(HOST, 0, server_factory=SlowGate, server_host_keys=[key], gss_host=None, config=None)
    connections = SshConnectionPool()
    options = through(target, SshJumpHost(HOST, acceptor.get_port(), USER, AUTH))
    async with open_channel(options, connections):
        granted.clear()
        asked.clear()
        late = asyncio.ensure_future(SshChannel(options, connections).open(RecordingReceiver()))
        await asked.wait()
        late.cancel()
        await asyncio.wait([late])
        assert len(target.live) == 1
        granted.set()
        await target.wait_until(lambda: target.connections == 2)
        await gone(target, 1)
    acceptor.close()
    await acceptor.wait_closed()
    for conn in conn_of.values():
        await conn.wait_closed()


async def test_bastion_reset_breaks_sessions_and_next_open_reconnects(gate: FakeSshd, target: FakeSshd) -> None:
    async with Relay(gate.port) as relay:
        connections = SshConnectionPool()
        options = through(target, SshJumpHost(HOST, relay.port, USER, AUTH))
        async with open_channel(options, connections) as (_, receiver):
            relay.reset()
            with pytest.raises(ChannelBroken):
                await receiver.receive()
            async with open_channel(options, connections) as (channel, again):
                await channel.send(b"x")
                assert await again.receive() == b"x"
                assert gate.connections == 2


async def test_bastion_pool_close_ends_sessions_and_pending_opens(gate: FakeSshd, target: FakeSshd) -> None:
    connections = SshConnectionPool()
    async with open_channel(through(target, hop(gate)), connections) as (_, receiver):
        await connections.aclose()
        await gone(gate)
        with pytest.raises((ChannelEnded, ChannelBroken)):
            await receiver.receive()
    async with Relay(gate.port) as relay:
        relay.freeze()
        late = SshChannel(through(target, SshJumpHost(HOST, relay.port, USER, AUTH)), connections)
        opening = asyncio.ensure_future(late.open(RecordingReceiver()))
        await gate.wait_until(lambda: gate.connections == 2)
        await connections.aclose()
        with pytest.raises(ChannelClosed):
            await opening

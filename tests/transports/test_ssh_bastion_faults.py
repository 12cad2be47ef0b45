"""Jump hosts that fail, hang, or come too late, and sessions that give up on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncssh
import pytest

from fixtures.receiver import RecordingReceiver
from fixtures.servers.inprocess_ssh import HOST, USER, FakeSshd, LoginPolicy, running_ssh_server
from fixtures.servers.relay import Relay
from fixtures.ssh import open_channel, options_for
from transports.errors import AuthFailed, ChannelBroken, ChannelClosed, ChannelEnded, ConnectTimeout
from transports.ssh import SshAuth, SshChannel, SshConnectionPool, SshConnectOptions, SshJumpHost

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


async def nothing_is_left() -> None:
    """Waits for all tasks to end: those that stay make the test time out."""
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
        options = through(target, SshJumpHost(HOST, port, USER, AUTH), connect_timeout_s=0.2)
        connections = SshConnectionPool()
        opens = [SshChannel(options, connections).open(RecordingReceiver()) for _ in range(2)]
        errors = await asyncio.gather(*opens, return_exceptions=True)
        for writer in held:
            writer.close()
    assert len(held) == 1
    assert all(isinstance(error, ConnectTimeout) and f"jump host {HOST}:{port}" in error.message for error in errors)
    await nothing_is_left()


async def test_bastion_cancelled_open_does_not_affect_other_opens(gate: FakeSshd, target: FakeSshd) -> None:
    async with Relay(gate.port) as relay:
        relay.freeze()
        connections = SshConnectionPool()
        options = through(target, SshJumpHost(HOST, relay.port, USER, AUTH))
        channels = [SshChannel(options, connections) for _ in range(2)]
        opens = [asyncio.ensure_future(channel.open(RecordingReceiver())) for channel in channels]
        await gate.wait_until(lambda: gate.connections == 1)
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
    await nothing_is_left()


async def test_bastion_channel_granted_after_cancel_is_closed(target: FakeSshd) -> None:
    """asyncssh forgets the request of a cancelled open, and the jump host would keep its connection to the target."""
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

"""Jump hosts: one connection to each, shared by all who go through it, closed when the last one leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from fixtures.servers.inprocess_ssh import HOST, USER, InProcessSsh, Login, running_ssh_server
from fixtures.servers.openssh import OpenSshServer, running_sshd
from fixtures.servers.relay import Relay
from transports.errors import (
    AuthFailed,
    ChannelBroken,
    ChannelClosed,
    ChannelEnded,
    ConnectFailed,
    ConnectTimeout,
    HostKeyMismatch,
)
from transports.receiver import QueueReceiver
from transports.ssh import Auth, Hop, HostKeys, SshChannel, SshConnections, SshOptions

PASSWORD = Login(password="pw")
AUTH = Auth("password", "pw")


@pytest.fixture
async def gate() -> AsyncIterator[InProcessSsh]:
    """A jump host."""
    async with running_ssh_server(PASSWORD) as server:
        yield server


@pytest.fixture
async def target() -> AsyncIterator[InProcessSsh]:
    async with running_ssh_server(PASSWORD) as server:
        yield server


def hop(server: InProcessSsh, auth: Auth | None = AUTH) -> Hop:
    return Hop(HOST, server.port, USER, auth)


def through(target: InProcessSsh, *hops: Hop, **more: Any) -> SshOptions:
    fields = {"auth": AUTH, "host_keys": HostKeys("disabled"), "use_openssh_config": False, **more}
    return SshOptions(HOST, target.port, USER, jump=hops, **fields)


@asynccontextmanager
async def opened(options: SshOptions, connections: SshConnections) -> AsyncIterator[tuple[SshChannel, QueueReceiver]]:
    channel, receiver = SshChannel(options, connections), QueueReceiver()
    await channel.open(receiver)
    try:
        yield channel, receiver
    finally:
        await channel.close()


async def gone(server: InProcessSsh, left: int = 0) -> None:
    """Waits until the server has seen its connections end."""
    await server.wait_until(lambda: len(server.live) == left)


async def nothing_is_left() -> None:
    """Waits for all tasks to end: those that stay make the test time out."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


async def test_sessions_share_the_connection_to_a_jump_host(gate: InProcessSsh, target: InProcessSsh) -> None:
    connections = SshConnections()
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
    async with opened(through(target, hop(gate)), SshConnections()) as (_, receiver):
        target.shells[0].channel.exit(3)
        with pytest.raises(ChannelEnded):
            await receiver.receive()
        await gone(gate)


async def test_pools_and_credentials_are_not_mixed(gate: InProcessSsh, target: InProcessSsh) -> None:
    connections = SshConnections()
    async with opened(through(target, hop(gate)), connections), opened(through(target, hop(gate)), SshConnections()):
        assert gate.connections == 2
        with pytest.raises(AuthFailed):
            await SshChannel(through(target, hop(gate, Auth("password", "other"))), connections).open(QueueReceiver())
        assert gate.connections == 3


async def test_a_chain_of_jump_hosts(gate: InProcessSsh, target: InProcessSsh) -> None:
    async with running_ssh_server(PASSWORD) as inner:
        connections = SshConnections()
        options = through(target, hop(gate), hop(inner))
        async with opened(options, connections), opened(options, connections), opened(through(inner, hop(gate)), connections):
            assert (gate.connections, inner.connections, target.connections) == (1, 2, 2)
            assert gate.forwards == [(HOST, inner.port)] * 2
            assert inner.forwards == [(HOST, target.port)] * 2
        await gone(gate)
        await gone(inner)


async def test_the_targets_password_is_not_sent_to_the_jump_host(gate: InProcessSsh, target: InProcessSsh) -> None:
    with pytest.raises(AuthFailed, match="jump host credentials of its own") as caught:
        await SshChannel(through(target, hop(gate, None))).open(QueueReceiver())
    assert f"jump host {HOST}:{gate.port}" in caught.value.message
    assert not gate.attempts


async def test_the_targets_key_is_tried_at_the_jump_host(target: InProcessSsh) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    auth = Auth("auto", "pw", key.export_private_key().decode())
    async with (
        running_ssh_server(Login(key=key)) as gate,
        opened(through(target, hop(gate, None), auth=auth), SshConnections()),
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
    options = SshOptions("sw1", auth=Auth("auto", "pw"), config_path=str(config))
    async with opened(options, SshConnections()) as (channel, receiver):
        await channel.send(b"hello")
        assert await receiver.receive_until(b"hello") == b"hello"
        assert gate.forwards == [(HOST, target.port)]


async def test_the_host_key_of_a_jump_host_is_checked(gate: InProcessSsh, target: InProcessSsh, tmp_path: Path) -> None:
    known = target.write_known_hosts(tmp_path / "known")
    with pytest.raises(HostKeyMismatch) as caught:
        await SshChannel(through(target, hop(gate), host_keys=HostKeys(known_hosts_path=known))).open(QueueReceiver())
    assert caught.value.details["port"] == gate.port
    assert caught.value.details["reason"] == "unknown"
    gate.write_known_hosts(tmp_path / "known")
    async with opened(through(target, hop(gate), host_keys=HostKeys(known_hosts_path=known)), SshConnections()):
        pass


async def test_a_target_that_the_jump_host_cannot_reach(gate: InProcessSsh, target: InProcessSsh) -> None:
    connections = SshConnections()
    async with opened(through(target, hop(gate)), connections):
        with pytest.raises(ConnectFailed, match="through jump host"):
            await SshChannel(through(InProcessSsh(1, target.host_key, PASSWORD), hop(gate)), connections).open(QueueReceiver())
        assert len(gate.live) == 1
    await gone(gate)


async def test_a_failed_jump_host_fails_all_who_wait_and_may_be_tried_again(gate: InProcessSsh, target: InProcessSsh) -> None:
    connections = SshConnections()
    gate.login = Login(password="later")
    options = through(target, hop(gate))
    opens = [SshChannel(options, connections).open(QueueReceiver()) for _ in range(3)]
    errors = await asyncio.gather(*opens, return_exceptions=True)
    assert [type(error) for error in errors] == [AuthFailed] * 3
    assert gate.connections == 1
    gate.login = PASSWORD
    async with opened(options, connections):
        assert gate.connections == 2


async def test_a_jump_host_that_says_nothing(target: InProcessSsh) -> None:
    held: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with await asyncio.start_server(hold, HOST, 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        options = through(target, Hop(HOST, port, USER, AUTH), connect_timeout_s=0.2)
        connections = SshConnections()
        opens = [SshChannel(options, connections).open(QueueReceiver()) for _ in range(2)]
        errors = await asyncio.gather(*opens, return_exceptions=True)
        for writer in held:
            writer.close()
    assert len(held) == 1
    assert all(isinstance(error, ConnectTimeout) and f"jump host {HOST}:{port}" in error.message for error in errors)
    await nothing_is_left()


async def test_one_who_gives_up_does_not_disturb_the_others(gate: InProcessSsh, target: InProcessSsh) -> None:
    async with Relay(gate.port) as relay:
        relay.freeze()
        connections = SshConnections()
        options = through(target, Hop(HOST, relay.port, USER, AUTH))
        channels = [SshChannel(options, connections) for _ in range(2)]
        opens = [asyncio.ensure_future(channel.open(QueueReceiver())) for channel in channels]
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


async def test_when_all_give_up_nothing_is_left(gate: InProcessSsh, target: InProcessSsh) -> None:
    async with Relay(gate.port) as relay:
        relay.freeze()
        connections = SshConnections()
        options = through(target, Hop(HOST, relay.port, USER, AUTH), hop(gate))
        opens = [asyncio.ensure_future(SshChannel(options, connections).open(QueueReceiver())) for _ in range(2)]
        await gate.wait_until(lambda: gate.connections == 1)
        for one in opens:
            one.cancel()
        await asyncio.wait(opens)
        assert all(one.cancelled() for one in opens)
        relay.thaw()
        await gone(gate)
    await nothing_is_left()


async def test_a_channel_through_the_jump_host_that_comes_too_late_is_closed(target: InProcessSsh) -> None:
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
    connections = SshConnections()
    options = through(target, Hop(HOST, acceptor.get_port(), USER, AUTH))
    async with opened(options, connections):
        granted.clear()
        asked.clear()
        late = asyncio.ensure_future(SshChannel(options, connections).open(QueueReceiver()))
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


async def test_a_jump_host_that_breaks_is_made_anew(gate: InProcessSsh, target: InProcessSsh) -> None:
    async with Relay(gate.port) as relay:
        connections = SshConnections()
        options = through(target, Hop(HOST, relay.port, USER, AUTH))
        async with opened(options, connections) as (_, receiver):
            relay.reset()
            with pytest.raises(ChannelBroken):
                await receiver.receive()
            async with opened(options, connections) as (channel, again):
                await channel.send(b"x")
                assert await again.receive() == b"x"
                assert gate.connections == 2


async def test_a_pool_that_is_closed_closes_its_jump_hosts(gate: InProcessSsh, target: InProcessSsh) -> None:
    connections = SshConnections()
    async with opened(through(target, hop(gate)), connections) as (_, receiver):
        await connections.aclose()
        await gone(gate)
        with pytest.raises((ChannelEnded, ChannelBroken)):
            await receiver.receive()
    async with Relay(gate.port) as relay:
        relay.freeze()
        late = SshChannel(through(target, Hop(HOST, relay.port, USER, AUTH)), connections)
        opening = asyncio.ensure_future(late.open(QueueReceiver()))
        await gate.wait_until(lambda: gate.connections == 2)
        await connections.aclose()
        with pytest.raises(ChannelClosed):
            await opening


@pytest.fixture(scope="module")
def sshd() -> Iterator[OpenSshServer]:
    with running_sshd() as server:
        yield server


async def test_a_real_jump_host_counts_one_connection(sshd: OpenSshServer) -> None:
    options = SshOptions(
        sshd.host,
        sshd.port,
        sshd.username,
        Auth("private_key", private_key_path=str(sshd.key_path)),
        host_keys=HostKeys(known_hosts_path=str(sshd.known_hosts)),
        use_openssh_config=False,
        jump=(Hop(sshd.host, sshd.port, sshd.username),),
        command="read line; echo $line; exit 5",
    )
    connections = SshConnections()
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

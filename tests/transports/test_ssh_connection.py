"""The end of an open SSH channel: reset, FIN, disconnect, keepalive, exit; and requests to the server."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import termios
from array import array
from collections.abc import Callable

import asyncssh
import pytest

from fixtures.servers.inprocess_ssh import LoginPolicy, Shell, running_ssh_server
from fixtures.servers.relay import Relay
from fixtures.ssh import open_channel, options_for
from transports.errors import ChannelBroken, ChannelClosed, ChannelEnded
from transports.ssh.socket_input import READ_BYTES

PASSWORD = LoginPolicy(password="pw")


async def test_ssh_connection_reset_breaks_channel() -> None:
    async with (
        running_ssh_server(PASSWORD) as server,
        Relay(server.port) as relay,
        open_channel(options_for(relay.port)) as (channel, receiver),
    ):
        await channel.send(b"before")
        await receiver.receive_until(b"before")
        relay.reset()
        with pytest.raises(ChannelBroken, match="reset"):
            await receiver.receive()
        with pytest.raises(ChannelBroken):
            channel.write(b"x")
        with pytest.raises(ChannelBroken):
            await channel.drain()
        await channel.close()
        assert receiver.ends[0].retryable


#: State of a TCP connection after a reset (tcp_states.h), the first byte of TCP_INFO.
TCP_CLOSE = 7


async def test_ssh_output_before_a_reset_is_received_although_a_write_fails_first() -> None:
    """asyncio stops reading after a failed write; the kernel still holds what the server has sent."""
    async with (
        running_ssh_server(PASSWORD) as server,
        Relay(server.port) as relay,
        open_channel(options_for(relay.port)) as (channel, receiver),
    ):
        await channel.send(b"before")
        await receiver.receive_until(b"before")
        connection = channel._connection
        assert connection is not None
        connection.pause_reading()
        server.shells[0].channel.write(b"x" * 100_000 + b"last")
        own = connection.ssh.get_extra_info("socket")
        await until(lambda: unread(own.fileno()) >= 100_004)
        relay.reset()
        await until(lambda: own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_CLOSE)
        channel.write(b"y")
        assert len(await receiver.receive_until(b"last")) == 100_004
        with pytest.raises(ChannelBroken, match=r"reset|pipe"):
            await receiver.receive()
        assert len(receiver.ends) == 1


async def test_ssh_turn_of_the_loop_reads_a_limited_number_of_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server can send each byte in a separate packet."""
    sizes: list[int] = []
    received = asyncssh.SSHClientConnection.data_received

    def count(connection: asyncssh.SSHClientConnection, data: bytes, datatype: int | None = None) -> None:
        sizes.append(len(data))
        received(connection, data, datatype)

    monkeypatch.setattr(asyncssh.SSHClientConnection, "data_received", count)
    async with running_ssh_server(PASSWORD) as server, open_channel(options_for(server.port)) as (_, receiver):
        for _ in range(2_000):
            server.shells[0].channel.write(b"x")
        server.shells[0].channel.write(b"last")
        assert len(await receiver.receive_until(b"last")) == 2_004
    assert max(sizes) <= READ_BYTES
    assert sum(sizes) > 4 * READ_BYTES


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a state of the kernel, which reports no event."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


def unread(descriptor: int) -> int:
    """Return the number of received bytes that a socket holds."""
    size = array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, size)
    return size[0]


async def test_ssh_connection_closed_by_fin_ends_channel() -> None:
    """Many devices only close the TCP connection at exit."""
    async with (
        running_ssh_server(PASSWORD) as server,
        Relay(server.port) as relay,
        open_channel(options_for(relay.port)) as (_, receiver),
    ):
        relay.close()
        with pytest.raises(ChannelEnded):
            await receiver.receive()


async def test_ssh_server_disconnect_ends_channel() -> None:
    async with running_ssh_server(PASSWORD) as server, open_channel(options_for(server.port)) as (_, receiver):
        server.live[0].close()
        with pytest.raises(ChannelEnded):
            await receiver.receive()


async def test_ssh_unanswered_keepalives_break_channel() -> None:
    async with (
        running_ssh_server(PASSWORD) as server,
        Relay(server.port) as relay,
        open_channel(options_for(relay.port, keepalive_s=0.02)) as (_, receiver),
    ):
        relay.freeze()
        with pytest.raises(ChannelBroken, match="keepalive"):
            await receiver.receive()


async def test_ssh_answered_keepalives_keep_idle_channel() -> None:
    async with (
        running_ssh_server(PASSWORD) as server,
        open_channel(options_for(server.port, keepalive_s=0.02)) as (channel, receiver),
    ):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receiver.receive(), 0.3)
        await channel.send(b"still here")
        await receiver.receive_until(b"still here")


async def test_ssh_dead_connection_without_keepalives_stays_open() -> None:
    async with (
        running_ssh_server(PASSWORD) as server,
        Relay(server.port) as relay,
        open_channel(options_for(relay.port, keepalive_s=0)) as (channel, receiver),
    ):
        relay.freeze()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receiver.receive(), 0.2)
        await channel.close()
        assert isinstance(receiver.ends[0], ChannelClosed)


def finish_at_once(shell: Shell) -> None:
    shell.channel.write(b"x" * 100_000)
    shell.channel.write_stderr(b"last")
    shell.channel.exit(9)


async def test_ssh_exit_during_open_is_reported_after_last_byte() -> None:
    async with (
        running_ssh_server(PASSWORD, finish_at_once) as server,
        open_channel(options_for(server.port)) as (channel, receiver),
    ):
        assert len(await receiver.receive_until(b"last")) == 100_004
        with pytest.raises(ChannelEnded, match="exit code 9"):
            await receiver.receive()
        assert channel.exit_status is not None
        assert channel.exit_status.code == 9


async def test_ssh_breaks_and_resizes_reach_server() -> None:
    async with running_ssh_server(PASSWORD) as server, open_channel(options_for(server.port)) as (channel, _):
        await channel.send_break()
        await channel.send_break(700)
        channel.resize(65535, 1)
        (shell,) = server.shells
        await server.wait_until(lambda: len(shell.sizes) == 2)
        assert shell.breaks == [250, 700]
        assert shell.sizes == [(120, 40), (65535, 1)]
        assert shell.term == "xterm-256color"

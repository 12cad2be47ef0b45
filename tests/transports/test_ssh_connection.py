"""The end of an open SSH channel: reset, FIN, disconnect, keepalive, exit; and requests to the server."""

from __future__ import annotations

import asyncio

import pytest

from fixtures.servers.inprocess_ssh import LoginPolicy, Shell, running_ssh_server
from fixtures.servers.relay import Relay
from fixtures.ssh import open_channel, options_for
from transports.errors import ChannelBroken, ChannelClosed, ChannelEnded

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

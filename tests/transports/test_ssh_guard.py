"""Guarded SSH channels: nothing is sent, or delivered late, once the right to write has ended."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from fixtures.receiver import RecordingReceiver
from fixtures.servers.inprocess_ssh import USER, FakeSshd, LoginPolicy, Shell, running_ssh_server
from transports.errors import ChannelBroken, ChannelError
from transports.ssh import HostKeyOptions, SshAuth, SshChannel, SshConnectOptions
from transports.tcp import OutputGuard

pytestmark = pytest.mark.waits

WINDOW = 8192


class GuardedChannel:
    """A channel whose right to write the test ends, and its server."""

    def __init__(self, server: FakeSshd) -> None:
        auth, keys = SshAuth("password", "pw"), HostKeyOptions("disabled")
        options = SshConnectOptions(server.host, server.port, USER, auth, host_keys=keys, use_openssh_config=False)
        self.server = server
        self.channel = SshChannel(options)
        self.may_send = True

    @property
    def shell(self) -> Shell:
        (shell,) = self.server.shells
        return shell


def read_nothing(shell: Shell) -> None:
    asyncio.get_running_loop().call_soon(shell.channel.pause_reading)


@contextlib.asynccontextmanager
async def guarded(delivery_s: float = 60.0, *, reads: bool = True, window: int = WINDOW) -> AsyncIterator[GuardedChannel]:
    on_start = None if reads else read_nothing
    async with running_ssh_server(LoginPolicy(password="pw"), on_start, window=window) as server:
        guarded = GuardedChannel(server)
        guarded.channel.guard_output(lambda: guarded.may_send, delivery_s)
        await guarded.channel.open(RecordingReceiver())
        await server.wait_until(lambda: bool(server.shells))
        yield guarded
        await guarded.channel.close()


async def write_until_the_end(channel: SshChannel) -> None:
    while True:
        channel.write(b"x" * 100_000)
        await channel.drain()


async def test_nothing_is_written_after_the_right_to_write_has_ended() -> None:
    async with guarded() as line:
        await line.channel.send(b"before")
        line.may_send = False
        with pytest.raises(ChannelBroken):
            line.channel.write(b"after")
        line.may_send = True
        await line.channel.send(b"again")
        async with asyncio.timeout(30):
            await line.server.wait_until(lambda: line.shell.received.endswith(b"again"))
        assert line.shell.received == b"beforeagain"


async def test_text_longer_than_the_window_arrives_whole() -> None:
    async with guarded() as line:
        text = b"".join(b"%d\n" % number for number in range(10_000))
        async with asyncio.timeout(60):
            await line.channel.send(text)
            await line.server.wait_until(lambda: len(line.shell.received) >= len(text))
        assert line.shell.received == text


async def test_bytes_beyond_the_window_do_not_wait_for_it_in_this_process() -> None:
    async with guarded(reads=False) as line:
        accepted = 0
        async with asyncio.timeout(30):
            while accepted < WINDOW:
                accepted += line.channel.write(b"x" * WINDOW)
                await asyncio.sleep(0.01)  # for the acknowledgement of the kernel
        assert accepted == WINDOW
        assert line.channel.write(b"x") == 0
        line.may_send = False
        line.shell.channel.resume_reading()
        async with asyncio.timeout(30):
            await line.server.wait_until(lambda: len(line.shell.received) >= WINDOW)
            with pytest.raises(ChannelBroken):
                line.channel.write(b"x")


async def test_connection_whose_bytes_are_not_acknowledged_ends_after_their_time() -> None:
    async with guarded(0.3) as line:
        (connection,) = line.server.live
        connection._transport.pause_reading()  # type: ignore[union-attr]
        line.channel._channel._send_window = 1 << 30  # type: ignore[union-attr]
        async with asyncio.timeout(30):
            with pytest.raises(ChannelError):
                await write_until_the_end(line.channel)


async def write_until_nothing_is_acknowledged(channel: SshChannel) -> int:
    """Return the number of accepted bytes."""
    accepted = refusals = 0
    while refusals < 50:
        taken = channel.write(b"x" * 4096)
        accepted, refusals = accepted + taken, 0 if taken else refusals + 1
        await asyncio.sleep(0 if taken else 0.01)
    return accepted


@pytest.mark.parametrize("force", [True, False])
async def test_bytes_that_are_not_acknowledged_at_a_close_are_discarded(force: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with guarded(window=1 << 28) as line:
        monkeypatch.setattr(line.shell.channel, "write", lambda data: None)  # an echo to a closed socket resets the connection
        (connection,) = line.server.live
        transport = connection._transport
        transport.pause_reading()  # type: ignore[union-attr]
        accepted = await write_until_nothing_is_acknowledged(line.channel)
        async with asyncio.timeout(30):
            await line.channel.close(force=force)
            transport.resume_reading()  # type: ignore[union-attr]
            await line.server.wait_until(lambda: not line.server.live)
        assert 0 < len(line.shell.received) < accepted


async def test_bytes_written_before_a_close_are_delivered() -> None:
    async with guarded() as line:
        await line.channel.send(b"logout")
        async with asyncio.timeout(30):
            await line.channel.close()
            await line.server.wait_until(lambda: not line.server.live)
        assert line.shell.received == b"logout"


async def test_nothing_is_unacknowledged_on_a_closed_socket() -> None:
    with socket.socket() as tcp:
        guard = OutputGuard(tcp, lambda: True, 1.0)
    assert guard.unacknowledged() == 0

"""An exception of the receiver ends the channel of each transport once, with a reason, and closes the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from fixtures.receiver import RecordingReceiver
from fixtures.servers.inprocess_ssh import LoginPolicy, Shell, running_ssh_server
from fixtures.servers.tcp_peer import listening
from fixtures.ssh import options_for
from transports import output_delivery
from transports.channel import Channel, Pty
from transports.errors import ChannelError, ReceiverFailed
from transports.local import LocalChannel, LocalOptions
from transports.local_pipes import LocalPipeChannel
from transports.receiver import Receiver
from transports.ssh import SshChannel
from transports.telnet import TelnetChannel, TelnetConnectOptions

#: More than one piece of a delivery.
OUTPUT = b"\x1b[0;1;31mtext\r\n" * 1000


class FailingReceiver(RecordingReceiver):
    """Raises an exception at each read from the `fails_from`th on, and, if `at_end`, at the end of the channel."""

    def __init__(self, fails_from: int = 1, *, at_end: bool = False) -> None:
        super().__init__()
        self.reads = 0
        self._fails_from = fails_from
        self._at_end = at_end
        self.ended = asyncio.Event()

    def buffer_updated(self, nbytes: int) -> None:
        self.reads += 1
        if self.reads >= self._fails_from:
            raise ValueError("secret output")
        super().buffer_updated(nbytes)

    def channel_ended(self, reason: ChannelError) -> None:
        super().channel_ended(reason)
        self.ended.set()
        if self._at_end:
            raise ValueError("secret output")


@asynccontextmanager
async def local(receiver: Receiver) -> AsyncIterator[tuple[Channel, Callable[[], object]]]:
    program = ("sh", "-c", "while :; do printf '\\033[mtext\\n'; done")
    channel = LocalChannel(LocalOptions(argv=program), Pty())
    await channel.open(receiver)
    yield channel, lambda: None


@asynccontextmanager
async def ssh(receiver: Receiver) -> AsyncIterator[tuple[Channel, Callable[[], object]]]:
    shells: list[Shell] = []
    async with running_ssh_server(LoginPolicy(password="pw"), shells.append) as server:
        channel = SshChannel(options_for(server.port))
        await channel.open(receiver)
        yield channel, lambda: shells[0].channel.write(OUTPUT)


@asynccontextmanager
async def telnet(receiver: Receiver) -> AsyncIterator[tuple[Channel, Callable[[], object]]]:
    async with listening() as listener:
        channel = TelnetChannel(TelnetConnectOptions(listener.host, listener.port), Pty())
        opening = asyncio.create_task(channel.open(receiver))
        peer = await listener.accept()
        await opening
        yield channel, lambda: peer.send(OUTPUT)


Connect = Callable[[Receiver], AbstractAsyncContextManager[tuple[Channel, Callable[[], object]]]]


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("fails_from", [1, 3])
@pytest.mark.parametrize("connect", [local, ssh, telnet])
async def test_exception_of_receiver_ends_channel_once_with_reason(
    connect: Connect, fails_from: int, at_end: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(output_delivery, "DELIVERY_S", 1e-9)  # one piece in each iteration
    receiver = FailingReceiver(fails_from, at_end=at_end)
    async with connect(receiver) as (channel, print_output):
        print_output()
        await receiver.ended.wait()
        (reason,) = receiver.ends
        assert isinstance(reason, ReceiverFailed)
        assert (reason.code, "ValueError" in reason.message, "secret" in reason.message) == ("INTERNAL", True, False)
        with pytest.raises(ReceiverFailed):
            channel.write(b"x")
        with pytest.raises(ReceiverFailed):
            await channel.drain()
        await channel.close()
    assert receiver.ends == [reason]
    assert receiver.reads == fails_from
    records = [record for record in caplog.records if record.name == "transports.receiver"]
    assert [record.__dict__["error"] for record in records] == ["ValueError"] * (2 if at_end else 1)


async def test_exception_of_stderr_receiver_ends_channel() -> None:
    channel = LocalPipeChannel(LocalOptions(argv=("sh", "-c", "echo error >&2; cat")))
    receiver = FailingReceiver(fails_from=2)
    channel.receive_stderr(FailingReceiver())
    await channel.open(receiver)
    await receiver.ended.wait()
    assert [type(reason) for reason in receiver.ends] == [ReceiverFailed]
    await channel.close()

"""Guarded Telnet channels: nothing is sent, or delivered late, once the right to write has ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from fixtures.receiver import RecordingReceiver
from fixtures.servers.tcp_peer import TcpPeer, listening
from fixtures.telnet import DO, IAC, TERMINAL, TM, WONT
from transports.errors import ChannelBroken
from transports.telnet import TelnetChannel, TelnetConnectOptions

ANSWER = IAC + WONT + TM


class GuardedLine:
    """A channel whose right to write the test ends, and its peer."""

    def __init__(self, channel: TelnetChannel, receiver: RecordingReceiver) -> None:
        self.channel = channel
        self.receiver = receiver
        self.may_send = True
        self.peer: TcpPeer


@contextlib.asynccontextmanager
async def guarded_line(delivery_s: float = 60.0, receive_buffer: int | None = None) -> AsyncIterator[GuardedLine]:
    async with listening(receive_buffer) as listener:
        line = GuardedLine(TelnetChannel(TelnetConnectOptions(listener.host, listener.port), TERMINAL), RecordingReceiver())
        line.channel.guard_output(lambda: line.may_send, delivery_s)
        opening = asyncio.create_task(line.channel.open(line.receiver))
        line.peer = await listener.accept()
        line.peer.send(b"$ ")
        await opening
        try:
            yield line
        finally:
            await line.channel.close(force=True)


async def test_answers_are_held_back_until_the_right_to_write_returns() -> None:
    async with guarded_line() as line:
        line.may_send = False
        line.peer.send(IAC + DO + TM + b"seen")
        seen = b""
        while b"seen" not in seen:
            seen += await line.receiver.receive()
        with pytest.raises(ChannelBroken):
            line.channel.write(b"x")
        line.may_send = True
        await line.channel.send(b"typed")
        assert await line.peer.receive_until(b"typed") == ANSWER + b"typed"


async def test_write_waits_until_the_peer_has_acknowledged_the_one_before() -> None:
    async with guarded_line() as line:
        text = b"".join(b"%d\n" % number for number in range(50_000))
        sending = asyncio.create_task(line.channel.send(text + b"end"))
        async with asyncio.timeout(30):
            assert await line.peer.receive_until(b"end") == text + b"end"
        await sending


async def test_bytes_that_the_peer_does_not_take_are_discarded_after_their_time() -> None:
    async with guarded_line(delivery_s=0.3, receive_buffer=4096) as line:
        accepted = 0
        async with asyncio.timeout(30):
            with contextlib.suppress(ChannelBroken):
                while True:
                    accepted += line.channel.write(b"x" * 100_000)
                    await line.channel.drain()
        line.peer.send(b"?")  # the kernel has forgotten the connection, and answers with a reset
        received = 0
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionResetError):
                while True:
                    received += len(await line.peer.receive_some())
        assert 0 < received < accepted

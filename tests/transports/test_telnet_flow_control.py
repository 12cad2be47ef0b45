"""The end of a Telnet channel, writes to a peer that does not read, and many channels at once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable

import pytest

from fixtures.receiver import RecordingReceiver
from fixtures.servers.tcp_peer import TcpPeer
from fixtures.telnet import DO, ECHO, IAC, NAWS, SB, SE, SGA, TM, TTYPE, WILL, TelnetLine, fill, telnet_line
from transports import output_delivery
from transports.channel import Pty
from transports.errors import ChannelBroken, ChannelClosed, ChannelEnded, ChannelError
from transports.output_delivery import DELIVERY_S
from transports.telnet import TelnetChannel, TelnetConnectOptions
from transports.telnet.connection import UNSENT_BYTES, WRITE_BYTES


def kinds(receiver: RecordingReceiver) -> list[type[ChannelError]]:
    return [type(reason) for reason in receiver.ends]


# End


@pytest.mark.parametrize(("end", "reason"), [(TcpPeer.finish, ChannelEnded), (TcpPeer.reset, ChannelBroken)])
async def test_telnet_end_is_reported_once_after_last_byte(end: Callable[[TcpPeer], None], reason: type[ChannelError]) -> None:
    async with telnet_line() as line:
        line.peer.send(b"x" * 30000 + IAC + DO + TM + b"last")
        end(line.peer)
        assert await line.receiver.receive_all() == b"$ " + b"x" * 30000 + b"last"
        await line.channel.close()
        assert kinds(line.receiver) == [reason]
        for _ in range(2):
            with pytest.raises(reason):
                line.channel.write(b"x")
            with pytest.raises(reason):
                await line.channel.drain()
            with pytest.raises(reason):
                await line.channel.send_break()
        line.channel.resize(80, 24)


@pytest.mark.parametrize("seed", range(12))
async def test_telnet_expensive_output_and_end_are_received_once_in_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, now = random.Random(seed), 0.0
    step_s = chance.choice([0.0, DELIVERY_S / 40, DELIVERY_S / 5, DELIVERY_S])

    def clock() -> float:
        nonlocal now
        now += step_s * chance.random() * 2
        return now

    monkeypatch.setattr(output_delivery, "clock", clock)
    end, reason = chance.choice([(TcpPeer.finish_sending, ChannelEnded), (TcpPeer.reset, ChannelBroken)])
    sent = b"$ "
    async with telnet_line() as line:
        for number in range(60):
            text = b"\x1b[%dm" % number * chance.choice([1, 10, 200])
            sent += text
            line.peer.send(text + chance.choice([b"", IAC + DO + TM]))
            if chance.random() < 0.3:
                await asyncio.sleep(0)
            if number == 30:  # a read of all data before this, and a pause
                await line.answer(b"")
        end(line.peer)
        received = await line.receiver.receive_all()
        # A kernel discards what was not read before a reset.
        assert received == sent if reason is ChannelEnded else sent.startswith(received)
        assert kinds(line.receiver) == [reason]


async def test_telnet_write_that_detects_reset_loses_no_received_byte() -> None:
    async with telnet_line() as line:
        line.peer.send(b"last words")
        line.peer.reset()
        line.channel.write(b"x")  # fails in the kernel before the event loop has read the received bytes
        assert await line.receiver.receive_all() == b"$ last words"
        assert kinds(line.receiver) == [ChannelBroken]


async def test_telnet_close_sends_pending_output_and_ends_once() -> None:
    async with telnet_line() as line:
        await line.channel.send(b"exit\r\0")
        await line.channel.close()
        await line.channel.close(force=True)
        assert kinds(line.receiver) == [ChannelClosed]
        assert await line.peer.receive_to_end() == b"exit\r\0"
        with pytest.raises(ChannelClosed):
            line.channel.write(b"x")


async def test_telnet_write_before_open_raises_channel_closed() -> None:
    channel = TelnetChannel(TelnetConnectOptions("127.0.0.1"), Pty())
    with pytest.raises(ChannelClosed, match="not open"):
        channel.write(b"x")
    await channel.close()


# Writes to a peer that does not read


@pytest.fixture
async def stuck() -> AsyncIterator[TelnetLine]:
    async with telnet_line(receive_buffer=4096) as line:
        yield line


async def test_telnet_unread_output_before_key_is_bounded(stuck: TelnetLine) -> None:
    taken = await fill(stuck)
    assert stuck.channel.write(b"\x03") == 0
    # The peer's receive buffer, our unsent and unacknowledged bytes, and the transport's buffer.
    assert taken < 4 * UNSENT_BYTES + WRITE_BYTES + 65536
    waiting = [asyncio.create_task(stuck.channel.send(b"\x03")) for _ in range(10)]
    assert await stuck.peer.receive_until(b"\x03" * 10) == b"x" * taken + b"\x03" * 10
    await asyncio.gather(*waiting)


@pytest.mark.parametrize(
    ("end", "reason"), [(TcpPeer.reset, ChannelBroken), (TcpPeer.finish_sending, ChannelEnded), (None, ChannelClosed)]
)
async def test_telnet_end_wakes_all_waiting_writers(
    stuck: TelnetLine, end: Callable[[TcpPeer], None] | None, reason: type[ChannelError]
) -> None:
    await fill(stuck)
    waiting = [asyncio.create_task(stuck.channel.drain()) for _ in range(10)]
    await asyncio.sleep(0)
    if end is not None:
        end(stuck.peer)
    else:
        await stuck.channel.close()  # returns although the peer never reads
    assert [type(result) for result in await asyncio.gather(*waiting, return_exceptions=True)] == [reason] * 10
    await stuck.receiver.receive_all()
    assert kinds(stuck.receiver) == [reason]


async def test_telnet_peer_that_never_reads_responses_breaks_channel(stuck: TelnetLine) -> None:
    await fill(stuck)
    await stuck.peer.send_all(IAC + DO + TTYPE)
    with contextlib.suppress(ConnectionError):
        while not stuck.receiver.ends:
            await stuck.peer.send_all(b"data" + (IAC + SB + TTYPE + b"\x01" + IAC + SE) * 100)
    assert kinds(stuck.receiver) == [ChannelBroken]


# Many channels


async def _echo_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Negotiate the usual options, and echo each line unchanged, with IAC doubled and CR padded."""
    writer.write(IAC + WILL + ECHO + IAC + WILL + SGA + IAC + DO + NAWS)
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        await reader.readuntil(IAC + SE)
        while True:
            writer.write(await reader.readuntil(b"\r\0"))
    writer.close()


async def _converse(port: int, number: int) -> None:
    channel, receiver = TelnetChannel(TelnetConnectOptions("127.0.0.1", port), Pty(80, 24)), RecordingReceiver()
    await channel.open(receiver)
    chance = random.Random(number)
    said = [f"{number}:{line}:".encode() + chance.randbytes(300).translate(None, b"\r\n\0") for line in range(20)]
    for line in said:
        await channel.send(line + channel.enter)
    expected = b"".join(line + b"\r" for line in said)
    heard = b""
    while len(heard) < len(expected):
        heard += await receiver.receive()
    assert heard == expected
    await channel.close()


async def test_telnet_hundred_channels_do_not_mix_data() -> None:
    server = await asyncio.start_server(_echo_server, "127.0.0.1", 0, backlog=128)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(_converse(port, number) for number in range(100)))

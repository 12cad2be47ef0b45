"""The Telnet channel against a peer that a test scripts: opening, ending, writing, and many at once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from fixtures.servers.programs import free_port
from fixtures.servers.scripted import Listener, Peer, listening
from transports.channel import Channel, Pty
from transports.errors import (
    ChannelBroken,
    ChannelClosed,
    ChannelEnded,
    ChannelError,
    ConnectFailed,
    ConnectTimeout,
    InvalidOption,
    Unsupported,
)
from transports.receiver import QueueReceiver
from transports.telnet import LineEnding, TelnetChannel, TelnetOptions
from transports.telnet.connection import UNSENT_BYTES, WRITE_BYTES

IAC, SB, SE, DM, BRK = b"\xff", b"\xfa", b"\xf0", b"\xf2", b"\xf3"
WILL, WONT, DO, DONT = b"\xfb", b"\xfc", b"\xfd", b"\xfe"
BINARY, ECHO, SGA, TM, TTYPE, NAWS = b"\x00", b"\x01", b"\x03", b"\x06", b"\x18", b"\x1f"


class Recorder(QueueReceiver):
    """Counts how often the end is told."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[ChannelError] = []

    def channel_ended(self, reason: ChannelError) -> None:
        self.reasons.append(reason)
        super().channel_ended(reason)

    async def receive_to_end(self) -> bytes:
        seen = b""
        with contextlib.suppress(ChannelError):
            while True:
                seen += await self.receive()
        return seen


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    async with listening() as server:
        yield server


Connect = Callable[..., Awaitable[tuple[TelnetChannel, Recorder, Peer]]]


@pytest.fixture
async def connect(listener: Listener) -> AsyncIterator[Connect]:
    """Opens a channel to a peer that has said `greeting`."""
    channels: list[Channel] = []

    async def run(greeting: bytes = b"$ ", pty: Pty | None = Pty(), **options: Any) -> tuple[TelnetChannel, Recorder, Peer]:  # noqa: B008
        channel, receiver = TelnetChannel(replace(TelnetOptions(listener.host, listener.port), **options), pty), Recorder()
        channels.append(channel)
        opening = asyncio.create_task(channel.open(receiver))
        peer = await listener.accept()
        if greeting:
            peer.send(greeting)
        await opening
        return channel, receiver, peer

    yield run
    for channel in channels:
        await channel.close(force=True)


async def answer(peer: Peer, asked: bytes) -> bytes:
    """What the channel answers to `asked`: a timing mark behind it tells that it has been handled."""
    peer.send(asked + IAC + DO + TM)
    return (await peer.receive_until(IAC + WONT + TM)).removesuffix(IAC + WONT + TM)


# Opening


async def test_a_host_that_says_nothing_is_open(connect: Connect) -> None:
    channel, _, peer = await connect(b"")
    await channel.send(channel.enter)
    assert await peer.receive_until(b"\r\0") == b"\r\0"


async def test_open_waits_for_options_that_the_peer_has_begun_with(listener: Listener) -> None:
    channel = TelnetChannel(TelnetOptions(listener.host, listener.port), Pty())
    opening = asyncio.create_task(channel.open(Recorder()))
    peer = await listener.accept()
    peer.send(IAC + DO + NAWS)
    await peer.receive_until(IAC + SE)
    peer.send(IAC + DO + BINARY + b"login: ")
    await opening
    assert channel.enter == b"\r"
    await channel.close()


async def test_a_peer_that_negotiates_for_ever_is_open_all_the_same(listener: Listener) -> None:
    channel = TelnetChannel(TelnetOptions(listener.host, listener.port), Pty())
    opening = asyncio.create_task(channel.open(Recorder()))
    peer = await listener.accept()
    with contextlib.suppress(ConnectionError):
        while not opening.done():
            peer.send(IAC + DO + TM)
            await asyncio.sleep(0.01)  # the pace of the peer, not a wait for anything
    await opening
    await channel.close()


async def test_a_peer_that_ends_at_once_is_read_to_its_end(connect: Connect, listener: Listener) -> None:
    channel, receiver = TelnetChannel(TelnetOptions(listener.host, listener.port), Pty()), Recorder()
    opening = asyncio.create_task(channel.open(receiver))
    peer = await listener.accept()
    peer.send(b"All lines are in use\r\n")
    peer.finish()
    await opening
    assert await receiver.receive_to_end() == b"All lines are in use\r\n"
    assert [type(reason) for reason in receiver.reasons] == [ChannelEnded]


async def test_a_cancelled_open_leaves_no_connection(listener: Listener) -> None:
    opening = asyncio.create_task(TelnetChannel(TelnetOptions(listener.host, listener.port), Pty()).open(Recorder()))
    peer = await listener.accept()
    peer.send(IAC + DO + NAWS)
    await peer.receive_until(IAC + SE)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert await peer.receive_to_end() == b""


async def test_a_refused_connection_is_named() -> None:
    port = free_port()
    with pytest.raises(ConnectFailed, match=f"127.0.0.1:{port}: Connection refused"):
        await TelnetChannel(TelnetOptions("127.0.0.1", port), Pty()).open(Recorder())


@pytest.mark.parametrize("host", ["console.invalid", "x" * 64])
async def test_a_name_that_is_no_host_is_named(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(name: str, *_: object, **__: object) -> object:
        name.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    with pytest.raises(ConnectFailed, match=f"cannot connect to {host}:23: "):
        await TelnetChannel(TelnetOptions(host), Pty()).open(Recorder())


async def test_a_host_that_does_not_answer_times_out() -> None:
    with contextlib.ExitStack() as sockets:
        full = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # Linux drops what does not fit into the queue of a listener that never accepts
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        options = TelnetOptions("127.0.0.1", full.getsockname()[1], connect_timeout_s=0.2)
        with pytest.raises(ConnectTimeout, match=r"did not answer within 0\.2 s"):
            await TelnetChannel(options, Pty()).open(Recorder())


@pytest.mark.parametrize(
    ("changed", "pty"),
    [
        ({"host": ""}, Pty()),
        ({"host": "a\0b"}, Pty()),
        ({"port": 0}, Pty()),
        ({"port": 65536}, Pty()),
        ({"line_ending": "crcr"}, Pty()),
        ({"connect_timeout_s": 0}, Pty()),
        ({"term": "two words"}, Pty()),
        ({}, Pty(term="x" * 41)),
        ({}, Pty(cols=0)),
        ({}, Pty(rows=65536)),
    ],
)
async def test_an_option_that_cannot_be_is_refused(changed: dict[str, object], pty: Pty) -> None:
    options = replace(TelnetOptions("127.0.0.1"), **changed)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        await TelnetChannel(options, pty).open(Recorder())


async def test_cleartext_is_warned_of() -> None:
    assert "cleartext" in (TelnetChannel(TelnetOptions("127.0.0.1"), Pty()).security_warning or "")


# Enter, the terminal, BREAK


@pytest.mark.parametrize(
    ("line_ending", "plain", "in_binary"),
    [
        ("auto", b"\r\0", b"\r"),
        ("cr", b"\r", b"\r"),
        ("crlf", b"\r\n", b"\r\n"),
        ("lf", b"\n", b"\n"),
        ("pass_through", b"\n", b"\n"),
    ],
)
async def test_enter_follows_the_negotiation(connect: Connect, line_ending: LineEnding, plain: bytes, in_binary: bytes) -> None:
    channel, _, peer = await connect(line_ending=line_ending)
    assert channel.enter == plain
    await answer(peer, IAC + WILL + BINARY)
    assert channel.enter == plain
    await answer(peer, IAC + DO + BINARY)
    assert channel.enter == in_binary
    await answer(peer, IAC + DONT + BINARY)
    assert channel.enter == plain


async def test_binary_that_is_refused_leaves_enter_as_it_was(connect: Connect) -> None:
    channel, _, peer = await connect(binary=False)
    assert await answer(peer, IAC + DO + BINARY + IAC + WILL + BINARY) == IAC + WONT + BINARY + IAC + DONT + BINARY
    assert channel.enter == b"\r\0"


async def test_a_resize_is_told_at_once(connect: Connect) -> None:
    channel, _, peer = await connect(pty=Pty(80, 24))
    channel.resize(132, 50)
    assert await answer(peer, IAC + DO + NAWS) == IAC + WILL + NAWS + IAC + SB + NAWS + b"\0\x84\0\x32" + IAC + SE
    channel.resize(255, 24)
    assert await peer.receive_until(IAC + SE) == IAC + SB + NAWS + b"\0\xff\xff\0\x18" + IAC + SE
    with pytest.raises(InvalidOption):
        channel.resize(0, 24)
    await channel.close()
    channel.resize(80, 24)


async def test_without_a_terminal_there_is_no_size(connect: Connect) -> None:
    channel, _, peer = await connect(pty=None)
    assert channel.pty_enabled is False
    assert await answer(peer, IAC + DO + NAWS) == IAC + WONT + NAWS
    with pytest.raises(Unsupported):
        channel.resize(80, 24)


async def test_break_and_iac_in_data(connect: Connect) -> None:
    channel, _, peer = await connect()
    await channel.send_break()
    assert await peer.receive_until(BRK) == IAC + BRK
    await channel.send(bytes(range(256)) + b"end")
    assert await peer.receive_until(b"end") == bytes(range(255)) + IAC + IAC + b"end"


async def test_echo_is_not_taken_for_a_secret(connect: Connect) -> None:
    channel, _, peer = await connect()
    for asked in (IAC + WILL + ECHO, IAC + WONT + ECHO):
        await answer(peer, asked)
        assert channel.echo_off is False


async def test_a_synch_loses_no_byte(connect: Connect) -> None:
    _, receiver, peer = await connect(b"")
    peer.send(b"before" + IAC + DM, socket.MSG_OOB)  # RFC 854: DM is TCP's urgent byte
    peer.send(b"after")
    assert await receiver.receive_until(b"after") == b"beforeafter"


# Ending


@pytest.mark.parametrize(("end", "reason"), [(Peer.finish, ChannelEnded), (Peer.reset, ChannelBroken)])
async def test_the_end_comes_once_and_after_the_last_byte(
    connect: Connect, end: Callable[[Peer], None], reason: type[ChannelError]
) -> None:
    channel, receiver, peer = await connect()
    peer.send(b"x" * 30000 + IAC + DO + TM + b"last")
    end(peer)
    assert await receiver.receive_to_end() == b"$ " + b"x" * 30000 + b"last"
    await channel.close()
    assert [type(told) for told in receiver.reasons] == [reason]
    for _ in range(2):
        with pytest.raises(reason):
            channel.write(b"x")
        with pytest.raises(reason):
            await channel.drain()
        with pytest.raises(reason):
            await channel.send_break()
    channel.resize(80, 24)


async def test_a_write_that_meets_a_reset_first_loses_nothing(connect: Connect) -> None:
    channel, receiver, peer = await connect()
    peer.send(b"last words")
    peer.reset()
    channel.write(b"x")  # fails in the kernel before the loop has read what came
    assert await receiver.receive_to_end() == b"$ last words"
    assert [type(told) for told in receiver.reasons] == [ChannelBroken]


async def test_close_sends_what_was_written_and_ends_once(connect: Connect) -> None:
    channel, receiver, peer = await connect()
    await channel.send(b"exit\r\0")
    await channel.close()
    await channel.close(force=True)
    assert [type(told) for told in receiver.reasons] == [ChannelClosed]
    assert await peer.receive_to_end() == b"exit\r\0"
    with pytest.raises(ChannelClosed):
        channel.write(b"x")


async def test_a_channel_that_is_not_open_takes_nothing() -> None:
    channel = TelnetChannel(TelnetOptions("127.0.0.1"), Pty())
    with pytest.raises(ChannelClosed, match="not open"):
        channel.write(b"x")
    await channel.close()


# Writing


@pytest.fixture
async def stuck() -> AsyncIterator[tuple[TelnetChannel, Recorder, Peer, int]]:
    """A channel whose peer reads nothing, filled until it takes no more; and how much it took."""
    async with listening(receive_buffer=4096) as listener:
        channel, receiver = TelnetChannel(TelnetOptions(listener.host, listener.port), Pty()), Recorder()
        await channel.open(receiver)
        peer = await listener.accept()
        taken = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):  # by then a kernel on one machine has moved all that fits
                while True:
                    taken += channel.write(b"x" * 100_000)
                    await channel.drain()
        yield channel, receiver, peer, taken
        await channel.close(force=True)


async def test_little_waits_before_a_key(stuck: tuple[TelnetChannel, Recorder, Peer, int]) -> None:
    channel, _, peer, taken = stuck
    assert channel.write(b"\x03") == 0
    # In the peer's kernel, in ours unsent, in ours on the way, in the process.
    assert taken < 4 * UNSENT_BYTES + WRITE_BYTES + 65536
    waiting = [asyncio.create_task(channel.send(b"\x03")) for _ in range(10)]
    assert await peer.receive_until(b"\x03" * 10) == b"x" * taken + b"\x03" * 10
    await asyncio.gather(*waiting)


@pytest.mark.parametrize(("end", "reason"), [(Peer.reset, ChannelBroken), (None, ChannelClosed)])
async def test_all_who_wait_to_write_hear_of_the_end(
    stuck: tuple[TelnetChannel, Recorder, Peer, int], end: Callable[[Peer], None] | None, reason: type[ChannelError]
) -> None:
    channel, _, peer, _ = stuck
    waiting = [asyncio.create_task(channel.drain()) for _ in range(10)]
    await asyncio.sleep(0)
    if end is not None:
        end(peer)
    else:
        await channel.close()  # ends though the peer never reads
    assert [type(result) for result in await asyncio.gather(*waiting, return_exceptions=True)] == [reason] * 10


async def test_a_peer_that_reads_no_answer_is_left(stuck: tuple[TelnetChannel, Recorder, Peer, int]) -> None:
    _, receiver, peer, _ = stuck
    await peer.send_all(IAC + DO + TTYPE)
    with contextlib.suppress(ConnectionError):
        while not receiver.reasons:
            await peer.send_all(b"data" + (IAC + SB + TTYPE + b"\x01" + IAC + SE) * 100)
    assert [type(told) for told in receiver.reasons] == [ChannelBroken]


# Many


async def _echo_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Asks for the usual options and gives each line back, IAC doubled, in the number of the connection."""
    writer.write(IAC + WILL + ECHO + IAC + WILL + SGA + IAC + DO + NAWS)
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        await reader.readuntil(IAC + SE)
        while True:
            line = await reader.readuntil(b"\r\0")
            writer.write(line)
    writer.close()


async def _converse(port: int, name: str, seed: int) -> None:
    channel, receiver = TelnetChannel(TelnetOptions("127.0.0.1", port), Pty(80, 24)), Recorder()
    await channel.open(receiver)
    chance = random.Random(seed)
    said = [
        f"{name}:{line}:".encode() + chance.randbytes(chance.randrange(300)).translate(None, b"\r\n\0") for line in range(20)
    ]
    for line in said:
        await channel.send(line + channel.enter)
    expected = b"".join(line + b"\r" for line in said)
    heard = b""
    while len(heard) < len(expected):
        heard += await receiver.receive()
    assert heard == expected
    await channel.close()


async def test_a_hundred_at_once_do_not_mix() -> None:
    server = await asyncio.start_server(_echo_server, "127.0.0.1", 0, backlog=128)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(_converse(port, f"line-{number}", number) for number in range(100)))

"""TelnetChannel against a scripted peer: open, Enter, window size, BREAK and keepalive."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from fixtures.receiver import RecordingReceiver
from fixtures.servers.programs import free_port
from fixtures.servers.tcp_peer import TcpPeer, listening
from fixtures.telnet import BINARY, BRK, DM, DO, DONT, ECHO, IAC, NAWS, SB, SE, TM, WILL, WONT, telnet_line
from transports.channel import Pty
from transports.errors import ChannelEnded, ConnectFailed, ConnectTimeout, InvalidOption, Unsupported
from transports.telnet import LineEnding, TelnetChannel, TelnetConnectOptions

# Open


@asynccontextmanager
async def opening_to_a_peer() -> AsyncIterator[tuple[asyncio.Task[None], TelnetChannel, RecordingReceiver, TcpPeer]]:
    """Yield a channel whose open is in progress."""
    async with listening() as listener:
        channel, receiver = TelnetChannel(TelnetConnectOptions(listener.host, listener.port), Pty()), RecordingReceiver()
        opening = asyncio.create_task(channel.open(receiver))
        yield opening, channel, receiver, await listener.accept()
        await channel.close()


@pytest.fixture
def patient_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an open wait for text: a slow peer is not silent."""
    for limit in ("NEGOTIATION_QUIET_S", "NEGOTIATION_LIMIT_S"):
        monkeypatch.setattr(f"transports.telnet.channel.{limit}", 60.0)


async def test_telnet_open_to_silent_host_succeeds() -> None:
    async with telnet_line(b"") as line:
        await line.channel.send(line.channel.enter)
        assert await line.peer.receive_until(b"\r\0") == b"\r\0"


@pytest.mark.usefixtures("patient_open")
async def test_telnet_open_waits_for_negotiation_that_peer_started() -> None:
    async with opening_to_a_peer() as (opening, channel, _, peer):
        peer.send(IAC + DO + NAWS)
        await peer.receive_until(IAC + SE)
        peer.send(IAC + DO + BINARY + b"login: ")
        await opening
        assert channel.enter == b"\r"


async def test_telnet_open_to_endlessly_negotiating_peer_succeeds() -> None:
    async with opening_to_a_peer() as (opening, _, _, peer):
        while not opening.done():
            peer.send(IAC + DO + TM)
            await asyncio.sleep(0.01)  # limits the rate of the peer; waits for nothing
        await opening


async def test_telnet_open_to_peer_that_ends_at_once_delivers_all_output() -> None:
    async with opening_to_a_peer() as (opening, _, receiver, peer):
        peer.send(b"All lines are in use\r\n")
        peer.finish()
        await opening
        assert await receiver.receive_all() == b"All lines are in use\r\n"
        assert [type(reason) for reason in receiver.ends] == [ChannelEnded]


@pytest.mark.usefixtures("patient_open")
async def test_telnet_cancelled_open_closes_connection() -> None:
    async with opening_to_a_peer() as (opening, _, receiver, peer):
        peer.send(IAC + DO + NAWS)
        await peer.receive_until(IAC + SE)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert await peer.receive_to_end() == b""
        assert receiver.ends == []


async def test_telnet_open_to_closed_port_raises_connect_failed() -> None:
    port = free_port()
    with pytest.raises(ConnectFailed, match=f"127.0.0.1:{port}: Connection refused"):
        await TelnetChannel(TelnetConnectOptions("127.0.0.1", port), Pty()).open(RecordingReceiver())


@pytest.mark.parametrize("host", ["console.invalid", "x" * 64])
async def test_telnet_open_to_unknown_host_raises_connect_failed(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(name: str, *_: object, **__: object) -> object:
        name.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    with pytest.raises(ConnectFailed, match=f"cannot connect to {host}:23: "):
        await TelnetChannel(TelnetConnectOptions(host), Pty()).open(RecordingReceiver())


async def test_telnet_open_without_answer_raises_connect_timeout() -> None:
    with contextlib.ExitStack() as sockets:
        full = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # fills the backlog; Linux drops further connections
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        options = TelnetConnectOptions("127.0.0.1", full.getsockname()[1], connect_timeout_s=0.2)
        with pytest.raises(ConnectTimeout, match=r"did not answer within 0\.2 s"):
            await TelnetChannel(options, Pty()).open(RecordingReceiver())


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
async def test_telnet_invalid_options_raise_invalid_option(changed: dict[str, object], pty: Pty) -> None:
    options = replace(TelnetConnectOptions("127.0.0.1"), **changed)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        await TelnetChannel(options, pty).open(RecordingReceiver())


async def test_telnet_channel_warns_of_cleartext() -> None:
    assert "cleartext" in (TelnetChannel(TelnetConnectOptions("127.0.0.1"), Pty()).security_warning or "")


# Enter, window size, BREAK, keepalive


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
async def test_telnet_enter_depends_on_line_ending_and_binary(line_ending: LineEnding, plain: bytes, in_binary: bytes) -> None:
    async with telnet_line(line_ending=line_ending) as line:
        assert line.channel.enter == plain
        await line.answer(IAC + WILL + BINARY)
        assert line.channel.enter == plain
        await line.answer(IAC + DO + BINARY)
        assert line.channel.enter == in_binary
        await line.answer(IAC + DONT + BINARY)
        assert line.channel.enter == plain


async def test_telnet_enter_after_refused_binary_is_cr_nul() -> None:
    async with telnet_line(binary=False) as line:
        assert await line.answer(IAC + DO + BINARY + IAC + WILL + BINARY) == IAC + WONT + BINARY + IAC + DONT + BINARY
        assert line.channel.enter == b"\r\0"


async def test_telnet_resize_sends_naws() -> None:
    async with telnet_line(pty=Pty(80, 24)) as line:
        line.channel.resize(132, 50)
        assert await line.answer(IAC + DO + NAWS) == IAC + WILL + NAWS + IAC + SB + NAWS + b"\0\x84\0\x32" + IAC + SE
        line.channel.resize(255, 24)
        assert await line.peer.receive_until(IAC + SE) == IAC + SB + NAWS + b"\0\xff\xff\0\x18" + IAC + SE
        with pytest.raises(InvalidOption):
            line.channel.resize(0, 24)
        await line.channel.close()
        line.channel.resize(80, 24)


async def test_telnet_resize_without_terminal_raises_unsupported() -> None:
    async with telnet_line(pty=None) as line:
        assert line.channel.pty_enabled is False
        assert await line.answer(IAC + DO + NAWS) == IAC + WONT + NAWS
        with pytest.raises(Unsupported):
            line.channel.resize(80, 24)


async def test_telnet_break_is_sent_and_iac_in_data_is_doubled() -> None:
    async with telnet_line() as line:
        await line.channel.send_break()
        assert await line.peer.receive_until(BRK) == IAC + BRK
        await line.channel.send(bytes(range(256)) + b"end")
        assert await line.peer.receive_until(b"end") == bytes(range(255)) + IAC + IAC + b"end"


async def test_telnet_echo_option_does_not_set_echo_off() -> None:
    async with telnet_line() as line:
        for asked in (IAC + WILL + ECHO, IAC + WONT + ECHO):
            await line.answer(asked)
            assert line.channel.echo_off is False


async def test_telnet_synch_loses_no_byte() -> None:
    async with telnet_line(b"") as line:
        line.peer.send(b"before" + IAC + DM, socket.MSG_OOB)  # RFC 854: DM is sent as urgent data
        line.peer.send(b"after")
        assert await line.receiver.receive_until(b"after") == b"beforeafter"


@pytest.mark.parametrize(("keepalive", "sent"), [("nop", b"\xf1"), ("ayt", b"\xf6")])
async def test_telnet_keepalive_is_sent_repeatedly(keepalive: str, sent: bytes) -> None:
    async with telnet_line(keepalive=keepalive, keepalive_s=0.01) as line:
        assert await line.peer.receive_until((IAC + sent) * 3) == (IAC + sent) * 3


async def test_telnet_without_keepalive_sends_no_byte() -> None:
    async with telnet_line() as line:
        assert await line.answer(b"") == b""

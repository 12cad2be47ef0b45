"""SSH flow control: the write gate, and a channel to a server that does not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from fixtures.servers.inprocess_ssh import USER, FakeSshd, LoginPolicy, Shell, running_ssh_server
from fixtures.ssh import open_channel, options_for
from transports import output_delivery
from transports.channel import ExitStatus
from transports.errors import ChannelClosed, ChannelEnded
from transports.receiver import QueueReceiver
from transports.ssh import HostKeyOptions, SshAuth, SshChannel, SshConnectOptions
from transports.ssh.channel import WRITE_BYTES, SshClientSession, WriteGate

#: The receive window of the server, bytes.
WINDOW = 8192


async def test_write_gate_open_returns_at_once() -> None:
    gate = WriteGate()
    await gate.wait()
    assert not gate.paused


async def test_write_gate_releases_waiters_in_order() -> None:
    gate = WriteGate()
    turns: asyncio.Queue[str] = asyncio.Queue()

    async def write(name: str, times: int) -> None:
        for _ in range(times):
            await gate.wait()
            while gate.paused:
                await gate.wait()
            gate.pause()
            turns.put_nowait(name)

    gate.pause()
    tasks = [asyncio.ensure_future(write("paste", 3)), asyncio.ensure_future(write("ctrl_c", 1))]
    await asyncio.sleep(0)
    for expected in ("paste", "ctrl_c", "paste", "paste"):
        gate.resume()
        assert await turns.get() == expected
    await asyncio.gather(*tasks)


async def test_write_gate_cancelled_waiter_does_not_block_others() -> None:
    gate = WriteGate()
    gate.pause()
    tasks = [asyncio.ensure_future(gate.wait()) for _ in range(4)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    gate.resume()
    tasks[1].cancel()
    await asyncio.gather(*tasks[2:])
    assert tasks[0].cancelled()


async def test_write_gate_finish_raises_reason_in_all_waiters() -> None:
    gate = WriteGate()
    gate.pause()
    tasks = [asyncio.ensure_future(gate.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    reason = ChannelEnded("over")
    gate.finish(reason)
    results = await asyncio.gather(tasks[0], tasks[2], return_exceptions=True)
    assert list(results) == [reason, reason]
    with pytest.raises(ChannelEnded):
        await gate.wait()


def read_nothing(shell: Shell) -> None:
    # Deferred: asyncssh resumes reading after this callback.
    asyncio.get_running_loop().call_soon(shell.channel.pause_reading)


@pytest.fixture
async def deaf() -> AsyncIterator[FakeSshd]:
    """A server that accepts one window of bytes and pauses until the test resumes it."""
    async with running_ssh_server(LoginPolicy(password="pw"), read_nothing, window=WINDOW) as server:
        yield server


@pytest.fixture
async def channel(deaf: FakeSshd) -> AsyncIterator[SshChannel]:
    options = SshConnectOptions(
        deaf.host, deaf.port, USER, SshAuth("password", "pw"), host_keys=HostKeyOptions("disabled"), use_openssh_config=False
    )
    channel = SshChannel(options)
    await channel.open(QueueReceiver())
    yield channel
    await channel.close()


async def fill(channel: SshChannel) -> int:
    """Write until no more is accepted; return the number of bytes accepted."""
    total = 0
    while taken := channel.write(b"x" * 100_000):
        total += taken
    return total


async def test_ssh_write_with_full_window_accepts_nothing(deaf: FakeSshd, channel: SshChannel) -> None:
    total = await fill(channel)
    assert WINDOW < total <= WINDOW + WRITE_BYTES
    assert channel.write(b"") == 0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(channel.drain(), 0.02)


async def test_ssh_ctrl_c_overtakes_long_paste(deaf: FakeSshd, channel: SshChannel) -> None:
    filled = await fill(channel)
    sending = [asyncio.ensure_future(channel.send(data)) for data in (b"p" * 500_000, b"\x03")]
    await asyncio.sleep(0)
    (shell,) = deaf.shells
    shell.channel.resume_reading()
    await asyncio.gather(*sending)
    await deaf.wait_until(lambda: len(shell.received) == filled + 500_001)
    # Before it: the bytes accepted earlier, and one write of the paste.
    assert shell.received.index(b"\x03") == filled + WRITE_BYTES
    assert WRITE_BYTES <= WINDOW


async def test_ssh_paste_without_other_writers_is_sent_completely(deaf: FakeSshd, channel: SshChannel) -> None:
    paste = bytes(range(256)) * 1000
    sending = asyncio.ensure_future(channel.send(paste))
    await deaf.wait_until(lambda: bool(deaf.shells))
    (shell,) = deaf.shells
    await asyncio.sleep(0)
    shell.channel.resume_reading()
    await sending
    await deaf.wait_until(lambda: len(shell.received) == len(paste))
    assert shell.received == paste


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_ssh_end_wakes_waiting_writers(deaf: FakeSshd, channel: SshChannel, end: str) -> None:
    await fill(channel)
    waiting = [asyncio.ensure_future(channel.drain()) for _ in range(3)]
    await asyncio.sleep(0)
    shell_channel = deaf.shells[0].channel
    getattr(shell_channel if end == "close" else shell_channel.get_connection(), end)()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [ChannelEnded] * 3


async def test_ssh_close_wakes_waiting_writers(deaf: FakeSshd, channel: SshChannel) -> None:
    await fill(channel)
    waiting = asyncio.ensure_future(channel.send(b"more"))
    await asyncio.sleep(0)
    await channel.close()
    with pytest.raises(ChannelClosed):
        await waiting


def test_ssh_session_stays_open_after_eof_without_terminal() -> None:
    for has_pty in (False, True):
        session = SshClientSession(QueueReceiver(), lambda: None, lambda: None, WriteGate(), has_pty, lambda *_: None)
        assert session.eof_received() is not has_pty


@pytest.mark.parametrize("end", ["exit", "abort"])
async def test_ssh_expensive_output_is_received_in_pieces_before_the_end(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    monkeypatch.setattr(output_delivery, "clock", clock)
    output = b"".join(b"\x1b]7717;nonce;%d;E;0\x07out\r\n" % number for number in range(4000))

    def print_marks(shell: Shell) -> None:
        shell.channel.write(output)
        if end == "exit":
            asyncio.get_running_loop().call_soon(shell.channel.exit, 3)

    async with (
        running_ssh_server(LoginPolicy(password="pw"), print_marks) as server,
        open_channel(options_for(server.port)) as (channel, receiver),
    ):
        received = await receiver.receive_until(b";3999;E;0\x07out\r\n")
        if end == "abort":
            server.live[0].abort()
        assert received + await receiver.receive_all() == output
        assert (channel.exit_status == ExitStatus(code=3)) is (end == "exit")

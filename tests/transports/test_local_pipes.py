"""Programs without a terminal."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from fixtures.descriptors import no_descriptors_left
from transports.errors import ChannelEnded, ConnectFailed, InvalidOption
from transports.local import LocalOptions
from transports.local_pipes import LocalPipeChannel
from transports.receiver import QueueReceiver


async def open_program(script: str, **options: str) -> tuple[LocalPipeChannel, QueueReceiver, QueueReceiver]:
    channel, stdout, stderr = LocalPipeChannel(LocalOptions(("sh", "-c", script), **options)), QueueReceiver(), QueueReceiver()  # type: ignore[arg-type]
    channel.receive_stderr(stderr)
    await channel.open(stdout)
    return channel, stdout, stderr


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def until_end(receiver: QueueReceiver) -> bytes:
    received = b""
    try:
        while True:
            received += await receiver.receive()
    except ChannelEnded:
        return received


async def test_streams_are_apart_and_exit_code_is_reported() -> None:
    channel, stdout, stderr = await open_program("read -r line; echo got $line; echo err >&2; tty <&1; exit 3", cwd="/")
    assert not channel.pty_enabled
    await channel.send(b"it\n")
    assert await until_end(stdout) == b"got it\nnot a tty\n"
    assert await stderr.receive() == b"err\n"
    assert channel.exit_status is not None
    assert channel.exit_status.code == 3


async def test_stderr_before_stdout_is_read_on_request() -> None:
    channel, stdout, stderr = await open_program("seq 5000 >&2; echo done; read -r line")
    asyncio.get_running_loop().remove_reader(channel._stderr)
    assert await stdout.receive_until(b"done\n") == b"done\n"
    channel.read_stderr()
    assert (await stderr.receive_until(b"5000\n")).startswith(b"1\n2\n")
    await channel.close(force=True)


async def test_signal_reaches_all_processes_of_the_program() -> None:
    channel, stdout, _ = await open_program("sleep 60 & echo up; wait")
    await stdout.receive_until(b"up\n")
    assert channel.signal_foreground(signal.SIGKILL)
    await until_end(stdout)
    assert not channel.signal_foreground(signal.SIGKILL)
    await channel.close()
    assert channel.left_running == ()


async def test_program_that_ignores_its_end_of_input_is_closed() -> None:
    channel, stdout, _ = await open_program("trap '' HUP; echo up; sleep 60")
    await stdout.receive_until(b"up\n")
    await channel.close(force=True)
    assert channel.exit_status is not None
    assert channel.exit_status.signal == "KILL"


async def test_missing_directory_or_descriptors_leave_no_descriptor() -> None:
    before = descriptors()
    with pytest.raises(InvalidOption):
        await open_program("true", cwd="/nonexistent")
    with no_descriptors_left(), pytest.raises(ConnectFailed):
        await open_program("true")
    assert descriptors() == before

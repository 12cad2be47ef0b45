"""Paced input: a slow line receives input no faster than its pace allows."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from fixtures.memory_channel import MemoryChannel
from ptyctl.api import ErrorCode, PtyctlError
from ptyctl.api.session import Pace
from ptyctl.core.lease import Leases
from ptyctl.session.io.gate import Gate, Writer
from ptyctl.session.io.signal import Signal
from transports.receiver import QueueReceiver


class Timed(MemoryChannel):
    """Records when each piece arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[float, bytes]] = []

    def write(self, data: bytes) -> int:
        self.pieces.append((asyncio.get_running_loop().time(), data))
        return super().write(data)


async def line(**pace: float) -> tuple[Gate, Timed]:
    channel = Timed()
    await channel.open(QueueReceiver())
    gate = Gate(Leases(), lambda: channel, Signal(), console=False, paced=False)
    gate.set_pace(Pace.model_validate(pace))
    return gate, channel


async def test_chars_per_s_limits_sent_characters_at_any_time() -> None:
    gate, channel = await line(chars_per_s=1000)
    await gate.type("x" * 300 + "\n", Writer())
    assert bytes(channel.written) == b"x" * 300 + b"\r"
    began, sent = channel.pieces[0][0], 0
    for at, data in channel.pieces:
        assert sent <= (at - began) * 1000 + 1e-3
        sent += len(data)


async def test_line_delay_ms_is_kept_between_lines_of_one_write() -> None:
    gate, channel = await line(line_delay_ms=30)
    await gate.type("one\ntwo\nthree", Writer())
    times = [at for at, _ in channel.pieces]
    assert [data for _, data in channel.pieces] == [b"one\r", b"two\r", b"three"]
    assert all(later - earlier >= 0.029 for earlier, later in itertools.pairwise(times))


async def test_line_delay_ms_is_kept_between_two_writes() -> None:
    gate, channel = await line(line_delay_ms=30)
    await gate.type("one\n", Writer())
    await gate.type("two\n", Writer())
    assert channel.pieces[1][0] - channel.pieces[0][0] >= 0.029


async def test_interrupt_during_line_delay_is_sent_at_once() -> None:
    gate, channel = await line(line_delay_ms=60_000)
    await gate.type("one\n", Writer())
    paste = asyncio.create_task(gate.type("two\n", Writer()))
    await asyncio.sleep(0)
    await gate.interrupt(b"\x03", Writer())
    assert bytes(channel.written) == b"one\r\x03"
    paste.cancel()


async def test_write_that_cannot_start_before_deadline_is_refused_at_once() -> None:
    gate, _ = await line(line_delay_ms=60_000)
    await gate.type("one\n", Writer())
    with pytest.raises(PtyctlError) as caught:
        await gate.type("two\n", Writer(deadline=asyncio.get_running_loop().time() + 50))
    assert caught.value.code is ErrorCode.IO_ERROR


async def test_secret_on_paced_line_is_sent_whole() -> None:
    gate, channel = await line(chars_per_s=10)
    armed: list[bytes] = []
    gate._on_secret = armed.append
    await gate.type("hunter2-and-more\n", Writer(sensitive=True))
    assert armed == [b"hunter2-and-more\r"]
    assert len(channel.pieces) == 1


async def test_write_of_many_lines_lets_other_tasks_run() -> None:
    gate, channel = await line()
    gate.set_pace(None)
    writing = asyncio.create_task(gate.type("x\n" * 10_000, Writer("one")))
    turns = 0
    while not writing.done():
        turns += 1
        await asyncio.sleep(0)
    assert len(channel.pieces) == 10_000
    assert turns > 500


async def test_write_of_many_bytes_lets_other_tasks_run() -> None:
    gate, channel = await line()
    gate.set_pace(None)
    writing = asyncio.create_task(gate.write(b"x" * 1_000_000, Writer("one")))
    turns = 0
    while not writing.done():
        turns += 1
        await asyncio.sleep(0)
    assert len(channel.written) == 1_000_000
    assert turns > 200

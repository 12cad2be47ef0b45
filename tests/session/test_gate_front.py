"""What is typed in the step of a match stays whole, also when the far end takes it in pieces."""

from __future__ import annotations

import asyncio

from fixtures.memory_channel import MemoryChannel
from ptyctl.core.lease import Leases
from ptyctl.session.io.gate import Gate, Writer
from ptyctl.session.io.signal import Signal
from transports.receiver import QueueReceiver


async def test_no_other_write_falls_into_it_and_an_interrupt_does() -> None:
    channel = MemoryChannel()
    await channel.open(QueueReceiver())
    gate = Gate(Leases(), lambda: channel, Signal(), console=False, paced=False)
    channel.capacity = 3
    gate.type_now("answer\n", Writer("first"))
    other = asyncio.create_task(gate.type("other\n", Writer("second")))
    await asyncio.sleep(0)
    assert bytes(channel.written) == b"ans"
    channel.capacity = 1
    await gate.interrupt(b"\x03", Writer("third"))
    channel.unblock()
    assert await other == 6
    assert bytes(channel.written) == b"ans\x03wer\rother\r"


async def test_a_far_end_that_goes_away_drops_the_rest() -> None:
    channel = MemoryChannel()
    await channel.open(QueueReceiver())
    gate = Gate(Leases(), lambda: channel, Signal(), console=False, paced=False)
    channel.capacity = 2
    gate.type_now("answer\n", Writer())
    await asyncio.sleep(0)
    channel.end()
    await asyncio.sleep(0)
    assert bytes(channel.written) == b"an"

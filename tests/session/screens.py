"""What tests of the screen do to it behind its back, and how they wait for what it answers."""

from __future__ import annotations

import asyncio

from fixtures.memory_channel import MemoryChannel
from ptyctl.session.io.query_detection import COLLECT_S
from ptyctl.session.screen.screen import Screen
from tests.session.acting import until


async def let_go(screen: Screen) -> None:
    """As if nobody had looked for long."""
    async with screen._lock:
        screen._drop()


async def answered(channel: MemoryChannel, expected: bytes) -> None:
    """Waits for what must be typed."""
    await until(lambda: expected in channel.written)


async def settled() -> None:
    """A time in which an answer would have been typed."""
    for _ in range(5):
        await asyncio.sleep(2 * COLLECT_S)

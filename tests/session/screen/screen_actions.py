"""Actions on a session's screen: releasing its emulator, and waiting for replies to queries."""

from __future__ import annotations

import asyncio

from fixtures.memory_channel import MemoryChannel
from ptyctl.session.screen.screen import Screen
from ptyctl.session.screen.terminal_queries import COLLECT_S
from tests.session.scripted_session import wait_until


async def release_emulator(screen: Screen) -> None:
    """Release the emulator, as after a long time without a reader."""
    async with screen._lock:
        await screen._drop()


async def wait_for_reply(channel: MemoryChannel, expected: bytes) -> None:
    """Wait until the session has sent `expected`."""
    await wait_until(lambda: expected in channel.written)


async def wait_without_reply() -> None:
    """Wait as long as a reply would take."""
    for _ in range(5):
        await asyncio.sleep(2 * COLLECT_S)

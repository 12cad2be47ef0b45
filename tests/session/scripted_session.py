"""Sessions on scripted channels, and short forms of calls on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from fixtures.memory_channel import MemoryChannel
from ptyctl.api import ExecReply, ExecRequest, IoReply, IoRequest
from ptyctl.session.calls.exec import execute
from ptyctl.session.calls.read import read
from ptyctl.session.calls.write import write
from ptyctl.session.io.output_stream import OutputStream
from ptyctl.session.session import Session
from ptyctl.session.spec import Limits, Spec
from transports.channel import Channel

PATIENCE_MS = 50_000


class Console(MemoryChannel):
    """A far end that is driven by a script; unread input is in `written`."""

    def __init__(self) -> None:
        super().__init__(self._typed)
        self._input_event = asyncio.Event()

    async def expect_input(self, data: bytes, answer: bytes) -> None:
        """Wait for input, check that it is `data`, and send `answer`."""
        await self._input_event.wait()
        self._input_event.clear()
        assert bytes(self.written) == data
        self.written.clear()
        self.feed(answer)

    def _typed(self, data: bytes) -> bytes:
        self._input_event.set()
        return b""


async def connect_session(folder: Path, channel: Channel, *, limits: Limits | None = None, **fields: Any) -> Session:
    """Return a session of this spec, connected to the channel."""
    session = Session("s", Spec(**{"protocol": "telnet", "host": "scripted", **fields}), folder / "s", limits or Limits())
    await session.connect(channel)
    return session


async def read_from(stream: OutputStream, **fields: Any) -> IoReply:
    return await read(stream, IoRequest.of({"session_id": "s", "action": "read", "timeout_ms": 0, **fields}))


async def write_to(session: Session, **fields: Any) -> IoReply:
    return await write(session, IoRequest.of({"session_id": "s", "action": "write", **fields}))


async def run_command(session: Session, cmd: str, **fields: Any) -> ExecReply:
    return await execute(session, ExecRequest.of({"session_id": "s", "cmd": cmd, "timeout_ms": PATIENCE_MS, **fields}), None)


async def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)


def split_at(data: bytes, places: Iterable[int]) -> list[bytes]:
    """Split `data` at these places (modulo its length) into non-empty pieces."""
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in pairwise(ends)]

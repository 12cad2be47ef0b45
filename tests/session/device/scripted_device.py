"""A scripted device at its prompt in a session, and the request that continues a run there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.session.session import Session
from tests.session.scripted_session import connect_session

PROMPT = b"R1# "
#: One step of a script: bytes to send, seconds to wait (float), or the number of input bytes to wait for (int).
Act = bytes | float | int


class Device(MemoryChannel):
    """Echoes a line, then performs its script. `typed` is the input after that line."""

    def __init__(self, *acts: Act) -> None:
        super().__init__(self._hear)
        self.typed = bytearray()
        self._acts = acts
        self._acting: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()

    def _hear(self, data: bytes) -> bytes:
        if self._acting is not None:
            self.typed += data
            self._heard.set()
            return b""
        if data.endswith(b"\r"):
            self._acting = asyncio.create_task(self._act())
            return data + b"\n"
        return data

    async def _act(self) -> None:
        wanted = 0
        for act in self._acts:
            match act:
                case bytes():
                    self.feed(act)
                case float():
                    await asyncio.sleep(act)
                case int():
                    wanted += act
                    while len(self.typed) < wanted:
                        self._heard.clear()
                        await self._heard.wait()


@asynccontextmanager
async def at_prompt(folder: Path, device: MemoryChannel, **fields: Any) -> AsyncIterator[Session]:
    session = await connect_session(folder, device, **fields)
    device.feed(b"\r\n" + PROMPT)
    session.prompt.learn(PROMPT.decode())
    try:
        yield session
    finally:
        await session.close(force=True)


def again_for(reply: ExecReply) -> ExecRequest:
    return ExecRequest.of({"session_id": "s", "block_id": reply.block_id, "timeout_ms": 15_000})

"""A run on a device ends at its prompt although another task types during it, on a virtual clock."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.session.session import Session
from tests.session.scripted_session import connect_session, run_command, split_at, write_to

PROMPT = "R1# "
OUTPUT = "one\r\n *  2 > best\r\n50% done\r\n"
HALF = "hostname OOPS"


class BusyConsole(MemoryChannel):
    """Reads input only at its prompt: keys that are typed while it prints are echoed after the next prompt."""

    def __init__(self, next_prompt: str, places: list[int], gap_s: float) -> None:
        super().__init__(self._hear)
        self.line = ""
        self._next_prompt, self._places, self._gap_s = next_prompt, places, gap_s
        self._unread = b""
        self._printing: asyncio.Task[None] | None = None

    def _hear(self, data: bytes) -> bytes:
        if self._printing is not None and not self._printing.done():
            self._unread += data
            return b""
        self.line += data.decode()
        if self.line.endswith("\r"):
            self.line = ""
            self._printing = asyncio.create_task(self._print())
        return data.removesuffix(b"\r")

    async def _print(self) -> None:
        for piece in split_at(f"\r\n{OUTPUT}{self._next_prompt}".encode(), self._places):
            await asyncio.sleep(self._gap_s)
            self.feed(piece)
        self.line = self._unread.decode()
        self.feed(self._unread)


async def _typed_into(session: Session, keys: list[bytes], delay_s: float) -> None:
    for key in keys:
        await asyncio.sleep(delay_s)
        await write_to(session, data=key.decode(), task_id="a")


@pytest.mark.parametrize("next_prompt", [PROMPT, "R1(config)# "])
@given(
    places=st.lists(st.integers(0, 60), max_size=6),
    gap_s=st.sampled_from([0.0, 0.05, 0.1]),
    cuts=st.lists(st.integers(0, 13), max_size=4),
    delay_s=st.sampled_from([0.001, 0.04, 0.2]),
)
def test_run_ends_at_its_prompt_while_another_task_types(
    next_prompt: str, places: list[int], gap_s: float, cuts: list[int], delay_s: float
) -> None:
    async def run() -> None:
        device = BusyConsole(next_prompt, places, gap_s)
        with tempfile.TemporaryDirectory() as folder:
            session = await connect_session(Path(folder), device)
            device.feed(b"\r\n" + PROMPT.encode())
            session.prompt.learn(PROMPT)
            command = asyncio.create_task(run_command(session, "do it"))
            await _typed_into(session, split_at(HALF.encode(), cuts), delay_s)
            reply = await command
            assert (reply.stdout, reply.done_reason) == (OUTPUT.replace("\r", ""), "prompt")
            assert session.prompt.learned == next_prompt
            block = session.blocks.latest()
            assert block is not None
            assert session.stream.read(0, block.spool_end or 0).decode().endswith(f"\n{next_prompt}")
            await session.close(force=True)

    run_virtually(run())

"""The output of a run on a device, for any text and timing, on a virtual clock."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from fixtures.virtual_clock import run_virtually
from ptyctl.api.blocks import BlocksRead
from ptyctl.api.exec import ExecReply
from ptyctl.api.session import Expect
from ptyctl.session.calls.block_read import BlockReader
from ptyctl.session.session import Session
from tests.session.scripted_session import connect_session, run_command, split_at

PROMPT = "R1# "
SETTLE_S = 0.3
COMMAND = "show it"
#: Fragments of device output, some of which look like prompts, pagers or questions.
PIECES = [
    PROMPT,
    "R1#",
    "R1(config)# ",
    "R1> ",
    " --More-- ",
    "--More--",
    "---(more 10%)---",
    "Press any key to continue (Q to quit)",
    "Password: ",
    "Proceed? [y/n]: ",
    "[confirm]",
    "*Mar  1 00:00:00.155: %LINK-3-UPDOWN: Interface Gi1/0/7, changed state to up",
    COMMAND,
    f"{PROMPT}{COMMAND}",
    "\n",
    "\n",
    "  ",
    "$",
    "ü",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(alphabet="ab >#%$]:-é", max_size=90), max_size=12).map("".join)


class Device(MemoryChannel):
    """Echoes a line, then sends `output` and the prompt in pieces, each after a delay in seconds."""

    def __init__(self, output: str, places: Sequence[int] = (), gaps: Sequence[float] = (0.0,)) -> None:
        super().__init__(self._typed)
        self._output = output
        self._places, self._gaps = places, gaps
        self._line = bytearray()
        self._speaking = False
        self.stray = bytearray()

    def _typed(self, data: bytes) -> bytes:
        if self._speaking:
            self.stray += data  # input while it prints is an error
            return b""
        self._line += data
        if not data.endswith(b"\r"):
            return data
        self._speaking = True
        lines = self._output.replace("\n", "\r\n").encode()
        answer = data.replace(b"\r", b"\r\n") + lines + PROMPT.encode()
        self._answering = asyncio.create_task(self._answer(split_at(answer, self._places)))
        return b""

    async def _answer(self, pieces: Sequence[bytes]) -> None:
        for number, piece in enumerate(pieces):
            await asyncio.sleep(self._gaps[number % len(self._gaps)])
            self.feed(piece)
        self._speaking = False


async def answer_to(device: Device, **fields: Any) -> tuple[ExecReply, str]:
    """The reply to a command at a learned prompt, and the block's text."""
    with tempfile.TemporaryDirectory() as folder:
        session = await connect_session(Path(folder), device, expect=Expect(settle_ms=int(SETTLE_S * 1000)))
        device.feed(b"\r\n" + PROMPT.encode())
        session.prompt.learn(PROMPT)
        reply = await run_command(session, COMMAND, max_output_bytes=1_000_000, **fields)
        text = await block_text(session, reply.block_id)
        await session.close(force=True)
        return reply, text


async def block_text(session: Session, block_id: str) -> str:
    request = BlocksRead.of({"session_id": session.session_id, "block_id": block_id})
    return (await BlockReader().read(session, request)).data or ""


@example("*Mar  1 00:00:00.155: %LINK-3-UPDOWN: Interface Gi1/0/7, changed state to up", [], [0.0])
@given(TEXTS, st.lists(st.integers(0, 2000), max_size=12), st.lists(st.floats(0, SETTLE_S * 0.9), min_size=1, max_size=5))
def test_stdout_is_the_text_between_echo_and_prompt(output: str, places: list[int], gaps: list[float]) -> None:
    device = Device(output, places, gaps)
    reply, text = run_virtually(answer_to(device))
    assert (reply.stdout, text) == (output, output)
    assert reply.done_reason == "prompt"
    assert bytes(device.stray) == b""

"""Shortened output: the omitted part can be read exactly from the cursor in the gap line."""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from fixtures.memory_channel import MemoryChannel
from ptyctl.api.exec import ExecReply, ExecRequest
from ptyctl.session.calls.exec import execute
from tests.session.conftest import Connect
from tests.session.scripted_session import PATIENCE_MS, connect_session, read_from, run_command, split_at

PROMPT = b"R1# "
GAP = re.compile(r"\[\.\.\. (\d+) bytes left out here; they can be read from cursor (\d+) on \.\.\.]\n")
#: Pieces that a terminal shows as the spool has them.
PIECES = st.one_of(
    st.sampled_from(["\r\n", "\n", "\r\n", "\x1b[31m", "\x1b[0m", "\x1b]0;title\x07", "é", "☃", "😀", "."]),
    st.integers(1, 30).map(lambda count: " " * count),
    st.integers(1, 2000).map(lambda count: "x" * count),
    st.integers(900, 1200).map(lambda count: " " * count),
    st.text("abc", min_size=1, max_size=40),
)
OUTPUTS = st.lists(PIECES, min_size=1, max_size=80).map("".join)


class Device(MemoryChannel):
    """Echoes a line, and sends its output in these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__(self._answer)
        self._pieces = pieces

    def _answer(self, data: bytes) -> bytes:
        self.feed(data.replace(b"\r", b"\r\n"))
        if b"\r" in data:
            for piece in self._pieces:
                self.feed(piece)
        return b""


@given(output=OUTPUTS, places=st.lists(st.integers(0, 5000), max_size=5), limit=st.integers(256, 1500), ended=st.booleans())
@example(output=" " * 2000, places=[], limit=256, ended=False)
@example(output="a" * 200 + " " * 40 + "b" * 1000, places=[], limit=256, ended=True)
@example(output="\x1b[1234m" * 300 + "end", places=[], limit=256, ended=True)
def test_head_and_read_of_the_gap_and_tail_are_the_whole_output(
    output: str, places: list[int], limit: int, ended: bool
) -> None:
    asyncio.run(_check(output, places, limit, ended))


async def _check(output: str, places: list[int], limit: int, ended: bool) -> None:
    data = output.encode()
    with tempfile.TemporaryDirectory() as folder:
        device = Device([*split_at(data, places), *([b"\r\n" + PROMPT] if ended else [])])
        session = await connect_session(Path(folder), device, platform="generic")
        device.feed(PROMPT)
        session.prompt.learn(PROMPT.decode())
        fields = {"cmd": "show it", "max_output_bytes": limit, "timeout_ms": PATIENCE_MS if ended else 1}
        request = ExecRequest.of({"session_id": "s", **fields})
        reply = await execute(session, request, None)
        if not ended:
            device.feed(b".")  # blanks at the end of the output are held until more output arrives
        spool = session.stream.read(int(reply.cursor), session.stream.spool_end).decode()
        whole = spool.removesuffix(PROMPT.decode() if ended else ".")
        assert await _with_gap_read(session.stream, reply) == whole
        assert len(reply.stdout.encode()) <= limit
        await session.close(force=True)


async def _with_gap_read(stream: object, reply: ExecReply) -> str:
    gap = GAP.search(reply.stdout)
    if gap is None:
        assert reply.omitted_bytes is None
        return reply.stdout
    assert reply.omitted_bytes == int(gap[1])
    read = await read_from(stream, mode="history", cursor=gap[2], max_bytes=max(reply.omitted_bytes, 1))
    middle = (read.chunk or "") if reply.omitted_bytes else ""
    return reply.stdout[: gap.start()] + middle + reply.stdout[gap.end() :]


async def test_output_of_a_device_from_a_cursor_lacks_its_prompt(connect: Connect) -> None:
    device = Device([b"one\r\ntwo\r\n" + PROMPT])
    session = await connect(device, platform="generic")
    device.feed(PROMPT)
    block_id = (await run_command(session, "show it")).block_id
    request = ExecRequest.of({"session_id": "s", "block_id": block_id, "from_cursor": "0"})
    reply = await execute(session, request, None)
    assert (reply.stdout, reply.next_cursor) == ("one\ntwo\n", str(session.stream.spool_end))

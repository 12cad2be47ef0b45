"""How the output shows that a line editor reads again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from tests.session.scripted_session import connect_session

_ON, _OFF = b"\x1b[?2004h", b"\x1b[?2004l"


@pytest.mark.parametrize(
    ("output", "began"),
    [(_OFF + b"%s" + _ON + b"$ ", True), (b"%s" + _ON + b"$ ", False), (_OFF + b"%s" + b"$ ", False)],
)
async def test_line_editor_after_much_output(tmp_path: Path, output: bytes, began: bool) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    channel.feed(_ON + b"$ ")
    entered = session.stream.raw_size
    channel.feed(output.replace(b"%s", b"text\r\n" * 100_000))
    read, read_raw = list[int](), session.stream.read_raw

    def counted(begin: int, end: int) -> bytes:
        read.append(end - begin)
        return read_raw(begin, end)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.stream, "read_raw", counted)
        assert session.terminal.line_editor_began_since(entered) is began
    assert sum(read) < 200_000
    await session.close()

"""Marks of a program. It can know the nonce of typed marks, which is typed into any program that reads the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.memory_channel import MemoryChannel
from tests.session.scripted_session import connect_session


@pytest.mark.parametrize("mark", ["7;L", "7;L;echo", "7;B;0", "7;P;0;0;/", "7;P;0,echo;0;/"])
async def test_line_of_the_shell_is_awaited_although_a_program_forges_a_mark(tmp_path: Path, mark: str) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    assert session.stream.normaliser.reader is not None
    typed, shell = session.stream.normaliser.reader.counters()
    channel.feed(f"\x1b]7717;{shell};1;P;0+;0;/\x07$ ".encode())
    channel.feed(f"\x1b]7717;{typed};{mark}\x07".encode())
    assert session.stream.line_follows
    assert session.gate.unfinished_line.filled is None
    channel.feed(f"\x1b]7717;{shell};2;L;rm%20\x07rm ".encode())
    assert not session.stream.line_follows
    assert session.gate.unfinished_line.filled == b"rm "
    await session.close()


async def test_second_line_mark_does_not_hide_the_text_of_the_shell(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    mark = f"\x1b]7717;{session.shell_nonce};".encode()
    channel.feed(b"%b1;P;0+;0;/\x07$ %b2;L;rm%%20\x07rm " % (mark, mark))
    channel.feed(b"%b3;L\x07%b4;L;echo\x07" % (mark, mark))
    assert session.stream.last_prompt is not None
    assert session.stream.last_prompt.line == b"rm "
    assert session.gate.unfinished_line.filled == b"rm "
    await session.close()


async def test_shell_has_not_returned_although_a_program_forges_the_end_of_a_command(tmp_path: Path) -> None:
    channel = MemoryChannel()
    session = await connect_session(tmp_path, channel)
    assert session.stream.normaliser.reader is not None
    typed, shell = session.stream.normaliser.reader.counters()
    channel.feed(f"\x1b]7717;{shell};1;P;0;0;/\x07$ ".encode())
    returned = session.stream.shell_returned_raw
    channel.feed(f"cat\r\n\x1b]7717;{shell};2;B;0\x07\x1b]7717;{typed};7;E;0\x07".encode())
    assert session.stream.shell_returned_raw == returned
    assert session.stream.command_begun
    await session.close()


async def test_report_of_the_line_is_not_awaited_from_a_terminal_that_has_ended(tmp_path: Path) -> None:
    first, second = MemoryChannel(), MemoryChannel()
    session = await connect_session(tmp_path, first)
    first.feed(f"\x1b]7717;{session.shell_nonce};1;P;0+;0;/\x07$ ".encode())
    assert session.stream.line_follows
    first.end()
    await session.connect(second)
    assert not session.stream.line_follows
    second.feed(f"\x1b]7717;{session.shell_nonce};1;P;0+;0;/\x07$ ".encode())
    assert session.stream.line_follows
    await session.close()

"""Matching lines with context: as a simple implementation finds them, and read at most a few times each."""

from __future__ import annotations

import asyncio
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.session.calls.output_selection import MatchingLines
from ptyctl.session.io.output_stream import OutputStream


class Text:
    """The text of a stream; counts the bytes that are read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes_read = 0
        self.search_turn = asyncio.Lock()

    def read(self, begin: int, end: int) -> bytes:
        self.bytes_read += end - begin
        return self.data[begin:end]


async def grep(text: Text, context: int, limit: int = 1 << 20) -> str:
    lines = MatchingLines(cast("OutputStream", text), 0, len(text.data), limit)
    await lines.search("a")
    return await lines.text(context)


def expected(lines: list[str], context: int) -> str:
    """Return the output of grep -C."""
    shown = {near for at, line in enumerate(lines) if "a" in line for near in range(at - context, at + context + 1)} & set(
        range(len(lines))
    )
    groups = "".join(("--\n" if at and context and at - 1 not in shown else "") + lines[at] for at in sorted(shown))
    return groups.removeprefix("--\n")


@given(
    lines=st.lists(st.sampled_from(["a\n", "b\n", "\n", "bab\n", "b" * 5_000 + "\n"]), max_size=40), context=st.integers(0, 4)
)
def test_matching_lines_have_context_as_grep_shows_it(lines: list[str], context: int) -> None:
    assert asyncio.run(grep(Text("".join(lines).encode()), context)) == expected(lines, context)


@given(gap=st.integers(0, 300), context=st.integers(0, 100))
def test_text_between_matching_lines_is_read_few_times(gap: int, context: int) -> None:
    text = Text((b"a\n" + b"b\n" * gap) * 100)
    asyncio.run(grep(text, context, 4 << 20))
    assert text.bytes_read <= 10 * len(text.data) + 100 * 3 * 4096

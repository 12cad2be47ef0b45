"""Lines of clients: any pieces give the same lines, and a line that is too long is skipped, but its id is known."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.client_lines import LongLineError, read_line

LIMIT = 20_000
#: A line, as the length of its text and whether its id is the first member.
LINES = st.lists(st.tuples(st.sampled_from([0, 50, LIMIT - 200, LIMIT, 2 * LIMIT + 1, 5 * LIMIT]), st.booleans()), max_size=5)


async def read_all(pieces: list[bytes]) -> list[bytes | int | str | None]:
    """Return the lines read from a stream that arrives in these pieces; of a line that is too long, its id."""
    source = asyncio.StreamReader(limit=LIMIT)

    async def feed() -> None:
        for piece in pieces:
            source.feed_data(piece)
            await asyncio.sleep(0)
        source.feed_eof()

    feeding = asyncio.create_task(feed())
    read: list[bytes | int | str | None] = []
    while True:
        try:
            line = await read_line(source)
        except LongLineError as error:
            read.append(error.call_id)
            continue
        if not line:
            await feeding
            return read
        read.append(line)


@given(LINES, st.data(), st.booleans())
def test_lines_of_a_stream_in_any_pieces(lines: list[tuple[int, bool]], data: st.DataObject, ended: bool) -> None:
    texts: list[bytes] = []
    for number, (size, first) in enumerate(lines):
        members = [("id", number), ("text", "x" * size)]
        texts.append(json.dumps(dict(members if first else reversed(members))).encode() + b"\n")
    stream = b"".join(texts)
    if texts and not ended:
        stream = stream[:-1]
        texts[-1] = texts[-1][:-1]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    expected = [number if len(text.rstrip()) > LIMIT else text for number, text in enumerate(texts)]
    assert asyncio.run(read_all(pieces)) == expected


async def test_long_line_without_id_and_end_is_skipped() -> None:
    assert await read_all([b"x" * 3 * LIMIT]) == [None]

"""Progress bars and blocks that are redrawn on the main screen: only what remains visible is drawn, with the same result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ptyctl.core.screen import ScreenModel, fast_forward, line_redraws, model

from .test_model_properties import SCROLLBACKS, STATES, STREAMS, run, seen

#: Parts of lines. Some are not skipped, because they could move the cursor, wrap or join.
TEXT = st.one_of(
    st.sampled_from(["a", "text", "w" * 7, "w" * 8, "w" * 9, "é─", "日本", "b日", "e\u0301", "\u0301", "", "  "]).map(
        str.encode
    ),
    st.sampled_from([b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[J", b"\x1b[P", b"\x1b[@", b"\x1b[2X"]),
    st.sampled_from(
        [b"\x1b[31m", b"\x1b[m", b"\x1b[39m", b"\x1b[44m", b"\x1b(0", b"\x1b(B", b"\x0e", b"\x0f", b"\x1b[4h", b"\x1b[4l"]
    ),
    st.sampled_from([b"\r", b"\x1b[G", b"\x1b[?7l", b"\x1b[?25l", b"\0", b"\x07", b"", b"", b"", b""]),
)
RARE = st.sampled_from(
    [b"\t", b"\n", b"\x1b[A", b"\x1b[B", b"\x1b[2J", b"\x1b[1J", b"\x1b[H", b"\x1b[L", b"\x1b[9A", b"\x1bM", b"\xe6\x97",
     b"w" * 30, b"\x1b[3J", b"\x1b[20h", b"\x1b[5B", "\u200d".encode(), b"x\r\ny\r\nz\r\n", b"\x1b[?1049h", b"\b"]
)  # fmt: skip
LINE = st.lists(TEXT, max_size=3).map(b"".join)
LINE_END = st.sampled_from([b"\r\n", b"\x1b[K\r\n", b"\n\r", b"\x1b[E", b"\r\x1b[B", b"\x1b[m\x1b[K\r\n"])


@st.composite
def redraws(draw: st.DrawFn) -> bytes:
    """A progress bar, or a block: rows that the cursor moves up to, and back down to the first row."""
    count = draw(st.integers(0, 3))
    start = draw(st.sampled_from([b"\r", b"\r", b"\r\x1b[2K", b"\x1b[G", b"", b"\x1b[2K\r"]))
    if not count:
        return start + draw(LINE) + draw(st.sampled_from([b"", b"\r", b"\x1b[K"]))
    up = draw(st.sampled_from([b"\x1b[%dA" % count, b"\x1b[A" * count, b"\x1b[1A\x1b[2K" * count, b"\x1b[%dF" % count]))
    if draw(st.booleans()):
        return up + start + b"".join(draw(LINE) + draw(LINE_END) for _ in range(count))
    down = draw(st.sampled_from([b"\x1b[%dB" % count, b"\n" * count, b"\x1b[%dE" % count]))
    first, last = (up, down) if draw(st.booleans()) else (down, up)
    return first + start + draw(LINE) + last


@contextmanager
def small_parts() -> Iterator[None]:
    """Skip short redraws too, in short parts, and try again at once after a failure."""
    with ExitStack() as stack:
        for name, value in {"_PIECE_BYTES": 300, "_PART_BYTES": 120, "_LAST_PART_BYTES": 40, "_FAILURE_FACTOR": 0}.items():
            stack.enter_context(patch.object(model, name, value))
        stack.enter_context(patch.object(line_redraws, "_SAMPLE_BYTES", 150))
        stack.enter_context(patch.object(fast_forward, "_BYTES_PER_CELL", 2))
        yield


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([(8, 3), (8, 5), (20, 6), (9, 4)]),
    SCROLLBACKS,
    st.sampled_from([b"", b"old", b"1\r\n2\r\n3", "日本日本\r\n日本日本\r\n 日本日".encode()]) | STATES,
    st.lists(st.tuples(st.lists(redraws(), min_size=1, max_size=3).map(b"".join), st.integers(1, 60)), min_size=1, max_size=3),
    redraws() | RARE,
    STREAMS,
    st.integers(50, 900),
)
@example((8, 3), 3, "日本日本".encode(), [(b"\rb\x1b[m\rc", 60)], b"", b"", 900)
@example((8, 3), 3, b"old text", [(b"\r\x1b[4hab", 60)], b"", b"", 900)
@example((8, 3), 3, b"old\r\n", [(b"\rlonger", 20), (b"\rbar", 60)], b"", b"", 900)
@example((8, 3), 3, b"old\r\n\r\n", [(b"\x1b[2Atwo\r\n\r\n", 30), (b"\x1b[Aone\r\n", 60)], b"", b"", 900)
@example((8, 3), 3, b"old\r\nyoung\r\n", [(b"\x1b[2J\x1b[Aone\x1b[K\r\n", 20), (b"\x1b[Aone\x1b[K\r\n", 60)], b"", b"", 900)
@example((8, 5), 3, b"old\r\n\r\n", [(b"\x1b[2Atwo\r\none\r\n", 30), (b"\x1b[Aone\r\n", 60)], b"", b"", 900)
@example(
    (8, 5), 3, b"\r\n" * 3 + b"low\x1b[A\r", [(b"\x1b[2A\x1b[Ja\r\n\r\n", 9), (b"\x1b[2Ab\x1b[K\r\n\r\n", 60)], b"", b"", 900
)
@example((20, 6), 3, b"old text", [(b"\r\x1b[4ha\x1b[4l" + b"\0" * 80, 30)], b"", b"", 2000)
@example((8, 5), 3, b"a\r\n", [(b"\x1b[3A" + b"x\x1b[K\r\n" * 3, 60)], b"", b"", 900)
@example((8, 3), 3, b"1\r\n2\r\n3", [(b"\x1b[Aa\n\n\rx\x1b[A", 60)], b"", b"", 900)
@example((450, 2), 3, b"a\r\n", [(b"\x1b[Ab\r" + b"c" * 90 + b"\x1b[K\r\n", 60)], b"", b"", 900)
@example((8, 3), 3, b"a\r\nb\r\n", [("\x1b[2Ax\n\u0301\n\r".encode(), 60)], b"", b"", 900)
def test_skip_of_redrawn_lines_is_exact(
    size: tuple[int, int],
    scrollback: int,
    before: bytes,
    repeated: list[tuple[bytes, int]],
    once: bytes,
    after: bytes,
    cut: int,
) -> None:
    parts = [redraw * count for redraw, count in repeated]
    redrawn = parts[0] + once + b"".join(parts[1:])
    script: list[bytes | tuple[int, int]] = [before, size, redrawn, (size[0] - 1, size[1]), parts[-1] + after]
    with patch.object(fast_forward, "_BYTES_PER_CELL", 1 << 30):  # skips nothing that is overwritten
        expected = seen(run(ScreenModel(*size, scrollback), script, 1))
    with small_parts():
        assert seen(run(ScreenModel(*size, scrollback), script, 1 << 30)) == expected
        assert seen(run(ScreenModel(*size, scrollback), script, cut)) == expected


BAR = b"[" + b"#" * 30 + b"%30s] %d/100"
REDRAWN = {
    "progress bar": b"\r" + BAR,
    "coloured progress bar": b"\r\x1b[32m" + BAR + b"\x1b[0m",
    "bar with erasure": BAR + b"\x1b[K\r",
    "bar of wide and other characters": "\r日本 ━━━━━━ ".encode() + BAR + b"\x1b[K",
    "block": b"\x1b[3A" + (b"\x1b[2K" + BAR + b"\r\n") * 3,
    "block without erasure": b"\x1b[1A" * 3 + b"\x1b[0G" + (b"\x1b[34m" + BAR + b"\x1b[0m\r\n") * 3,
    "block with erasure on the way up": b"\x1b[2K\x1b[1A" * 3 + b"\x1b[2K\x1b[G" + (BAR + b"\r\n") * 3,
    "line of a block": b"\x1b[2A\x1b[2K\r" + BAR + b"\r\x1b[2B",
    "bar below": b"\n\r" + BAR + b"\x1b[A\r" + BAR,
}


@pytest.mark.parametrize("kind", REDRAWN)
def test_long_redraws_of_lines_are_skipped(kind: str) -> None:
    unit = REDRAWN[kind]
    data = b"".join(unit % ((b"x" * (number % 30), number % 100) * (unit.count(b"%d"))) for number in range(1 << 13))
    screen, drawn = ScreenModel(120, 40), ScreenModel(120, 40)
    for begun in (screen, drawn):
        begun.feed(b"old\r\n" * 5)
        begun.snapshot()
    cost = screen.cost
    screen.feed(data)
    for begin in range(0, len(data), 5000):
        drawn.feed(data[begin : begin + 5000])
        drawn.snapshot()
    assert seen(screen) == seen(drawn)
    assert screen.cost - cost < (drawn.cost - cost) / 4

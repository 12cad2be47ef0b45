"""ScreenModel: splits, fast forward, serialization and copies do not change the screen.

The reference draws after every byte (`snapshot`), so nothing is deferred or skipped.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ptyctl.core.screen import ScreenModel, ScreenSnapshot, fast_forward

SIZES = st.tuples(st.sampled_from([1, 2, 3, 8, 20]), st.sampled_from([1, 2, 3, 6]))
SCROLLBACKS = st.sampled_from([0, 1, 3, 50])

CONTROLS = [b"\r\n", b"\n", b"\r", b"\t", b"\b", b"\v", b"\x0e", b"\x0f", b"\x00", b"\x7f", b"\x18", b"\x05"]
TEXTS = [
    "a",
    "hello ",
    "x" * 30,
    "é",
    "e\u0301",
    "\u0301",
    "日本",
    "─│",
    "\u2764\ufe0f",
    "\U0001f44d\U0001f3fd",
    "\u200d",
    "\x9b",
]
HALVES = [
    b"\xff",
    b"\xe6\x97",
    b"\xf0\x9f",
    b"\x1b",
    b"\x1b[",
    b"\x1b[3",
    b"\x1b]",
    b"\x1b]2;t",
    b"\x1bP",
    b"\x1b[5\n",
    b"\x1b(",
    b"\\",
]
SEQUENCES = [
    *(b"\x1b%c" % final for final in b"78cDEHMZ=>"),
    *(b"\x1b#8", b"\x1b(0", b"\x1b(B", b"\x1b)0", b"\x1b)B", b"\x1b[!p", b"\x1b[2 q", b"\x1b[2;3r", b"\x1b[3J"),
    *(b"\x1b[%bm" % style for style in (b"", b"1;31", b"0;4;44", b"7", b"38;5;208", b"48:2::1:2:3", b">4;1", b"?4")),
    *(
        b"\x1b[?%d%c" % (mode, final)
        for mode in (1, 3, 5, 6, 7, 25, 47, 1000, 1002, 1006, 1047, 1048, 1049, 2004)
        for final in b"hl"
    ),
    *(b"\x1b[4h", b"\x1b[4l", b"\x1b[20h", b"\x1b[20l", b"\x1b[3g", b"\x1b[b", b"\x1b[2b", b"\x1b[22t", b"\x1b[23t"),
    *(b"\x1b[6n", b"\x1b[c", b"\x1b[>q", b"\x1b[?6$p", b"\x1b[18t", b"\x1b]11;?\x07", b"\x1bP$qm\x1b\\"),
    *(b"\x1b%c" % final for final in b"69VW"),
    *(b'\x1b[1"q', b'\x1b["q', b"\x1b[?J", b"\x1b[?1K", b"\x1b[?2J", b"\x1b[2;5s", b"\x1b[2;2s", b"\x1b[3s", b"\x1b[s"),
    *(b"\x1b[?69h", b"\x1b[?69l", b"\x1b[?45h", b"\x1b[?45l", b"\x1b[?7s", b"\x1b[?6;69s", b"\x1b[?7;6r", b'\x1b[61"p'),
    *(b"\x1b[2'}", b"\x1b['~", b"\x1b[ @", b"\x1b[2 A", b"\x1b[2*x", b"\x1b[*x", b"\x1b[3#y", b"\x1b[1;1;1;2;5*y"),
    *(b"\x1b[1;2;3;9$z", b"\x1b[${", b"\x1b[88;2;2;3;5$x", b"\x1b[;;2;3;;2;4$v", b"\x1b[;;2;3;1;7$r", b"\x1b[1;2;2;1;0$t"),
    *(b"\x1b]4;1;#123456\x07", b"\x1b]11;rgb:1/2/3;?\x1b\\", b"\x1b]104;1\x07", b"\x1b]4;1;?;256;?\x07", b"\x1b]111\x07"),
    *(b"\x1b]2;one\x07", b"\x1b]0;two\x1b\\", b"\x1b_apc\x1b\\", b"\x1b]x\x18"),
]
ADDRESSED = st.builds(
    lambda numbers, final: b"\x1b[" + b";".join(b"%d" % number for number in numbers) + final,
    st.lists(st.sampled_from([0, 1, 2, 3, 5, 19, 99, 123456789]), max_size=3),
    st.sampled_from([bytes([code]) for code in b"@ABCDEFGHIJKLMPSTXZ`abdefgrhl"]),
)
#: Input that fast forward must not skip, or must handle differently.
STATES = st.sampled_from(
    [b"\x1b[1;2r", b"\x1b[2;3r", b"\x1b[?6h", b"\x1b[4h", b"\x1b[20h", b"\x1b[?7l", b"\x1b[?1049h", b"\x0e", b"\x1b(0",
     b"\x1b[?69h\x1b[2;4s", b"\x1b[?45h", b"\x1b[1\"q", b"\x1bVx\x1bW", b"\x1b[?69h\x1b[1;2sx",
     b"\x1b[44m", b"\x1b[", b"\x1b]", b"\x1b[3g", b"wide" * 20, b"\r\n" * 7, b"\x1b[3H", b"\xe6\x97", b"\xf0\x9f\x91"]
)  # fmt: skip
PIECES = st.one_of(
    st.sampled_from(CONTROLS),
    st.sampled_from(TEXTS).map(str.encode),
    st.sampled_from(SEQUENCES),
    ADDRESSED,
    st.sampled_from(HALVES),
    st.binary(max_size=4),
)
LINE = st.sampled_from(
    [
        b"",
        b"line",
        b"w" * 25,
        b"\x1b[32mgreen",
        b"\x1b[mplain\ttab",
        b"\x1b[0;1mbold",
        "日本 é".encode(),
        b"\xe6\x97",
        b"\rx\ny",
    ]
)
#: Sequences of a drawn frame.
DRAWN = st.one_of(
    st.sampled_from([b"\x1b[%c" % final for final in b"ABCDGHIJKLMPSTXZ@bd"]),
    st.sampled_from(
        [
            b"\x0e",
            b"\x0f",
            b"\x1b[3J",
            b"\x1b[3;2H",
            b"\x1b[2;9H",
            b"\r\n",
            b"\x1b[7m",
            b"\x1b[m",
            b"\x1b[4h",
            b"\x1b[4l",
            b"\x1b[41m",
            b"\x1b[8G",
        ]
    ),
    st.sampled_from([b"\x1b[?7l", b"\x1b[?7h", b"\x1b(0", b"\x1b(B", b"\x1b[?25l", b"\x1b[?25h", b"\x1b[1;2r", b"\x1b[r"]),
    st.sampled_from(["a", "x" * 30, "qé", "e\u0301", "日本", "\u2764\ufe0f"]).map(str.encode),
)
DRAWINGS = st.lists(DRAWN, max_size=8).map(b"".join)
#: Starts of the last frame: erase everything, or draw nearly everything.
BEGINS = st.sampled_from([b"\x1b[2J", b"y" * 130, b"\x1b[2K", b"\xc3\xa9\x1b[1J\x1b[J", b""])
ADDRESSES = st.sampled_from([b"\x1b[H", b"\x1b[1;2H", b"\x1b[2;1f"])
SCREENS = st.sampled_from(
    [b"\x1b[?1049h", b"lines\r\n" * 9 + b"\x1b[?1049h", b"\x1b[?1049h\x1b[?6h", b"\x1b[?1049h\x1b[2;3r\x0e", b"text",
     b"\x1b[?1049h\x1b[?69h\x1b[2;3s", b"\x1b[?1049h\x1bVsafe\x1bW", b"\x1b[?1049h\x1bV", b"\x1b[?1049h\x1b[?45h"]
)  # fmt: skip
#: Characters that the next one may join.
JOINER = "\x1b[Ha\u200d".encode()
JOINED = "\x1b[1;2Hé\x1b[1J\x1b[Jx".encode()
JOINERS = st.sampled_from([b"", b"", JOINER, JOINER[:-1]])
LINES = st.lists(LINE, max_size=70).map(b"\r\n".join)
BURSTS = st.lists(LINE, min_size=5, max_size=9).map(lambda lines: b"\r\n".join(lines * 9))
STREAMS = st.lists(PIECES | LINES, max_size=25).map(b"".join)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[ScreenModel, list[bytes | tuple[int, int]]]:
    """A new model and a script for it: bytes and resizes."""
    model = ScreenModel(*draw(SIZES), draw(SCROLLBACKS))
    return model, draw(st.lists(STREAMS | STREAMS | SIZES, min_size=1, max_size=5))


def run(model: ScreenModel, script: list[bytes | tuple[int, int]], size: int | None) -> ScreenModel:
    """Feed the script in pieces of `size` bytes; None: byte by byte, drawing after each."""
    for step in script:
        if isinstance(step, tuple):
            model.resize(*step)
            continue
        for begin in range(0, len(step), size or 1):
            model.feed(step[begin : begin + (size or 1)])
            if size is None:
                model.snapshot()
    return model


def seen(model: ScreenModel) -> tuple[ScreenSnapshot, object, list[bytes]]:
    lines = model.scrollback_range(None, 1000, attributes=True)
    return model.snapshot(attributes=True), (lines.lines, lines.attributes), model.responses


@given(scripts(), st.integers(1, 200))
def test_fast_forward_and_splits_change_nothing(begun: tuple[ScreenModel, list[bytes | tuple[int, int]]], size: int) -> None:
    model, script = begun
    full, whole, cut = model.copy(), model.copy(), model.copy()
    expected = seen(run(full, script, None))
    assert seen(run(whole, script, 1 << 30)) == expected
    assert seen(run(cut, script, size)) == expected


@given(scripts())
@example((ScreenModel(5, 1), [b"\x1bVprotected\x1bW and not"]))
def test_stored_scrollback_restores_lines_and_attributes(
    begun: tuple[ScreenModel, list[bytes | tuple[int, int]]],
) -> None:
    model, script = begun
    run(model, script, 1 << 30)
    expected = model.scrollback_range(0, 1000, attributes=True)
    other = ScreenModel(5, 5, len(expected.lines))
    other.restore_scrollback(json.loads(json.dumps(model.stored_scrollback())))
    assert other.scrollback_range(0, 1000, attributes=True) == expected


@given(STREAMS, STREAMS, SIZES)
def test_every_split_of_two_sequences_gives_same_screen(before: bytes, after: bytes, size: tuple[int, int]) -> None:
    data = (before + after)[:60]
    expected = seen(run(ScreenModel(*size, 3), [data], None))
    for cut in range(len(data) + 1):
        assert seen(run(ScreenModel(*size, 3), [data[:cut], data[cut:]], 1 << 30)) == expected


@given(SIZES, SCROLLBACKS, st.lists(STATES, max_size=4).map(b"".join), BURSTS, STREAMS)
def test_fast_forward_of_burst_in_any_state_is_exact(
    size: tuple[int, int], scrollback: int, before: bytes, burst: bytes, after: bytes
) -> None:
    expected = seen(run(ScreenModel(*size, scrollback), [before, burst, after], None))
    assert seen(run(ScreenModel(*size, scrollback), [before, burst, after], 1 << 30)) == expected
    assert seen(run(ScreenModel(*size, scrollback), [before, burst + after], 1 << 30)) == expected


@given(
    SIZES, SCREENS, JOINERS, st.tuples(JOINERS, DRAWINGS).map(b"".join), st.tuples(ADDRESSES, BEGINS, DRAWINGS).map(b"".join)
)
@example((8, 3), b"\x1b[?1049h", JOINER, b"", JOINED)
@example((8, 3), b"\x1b[?1049h", b"", JOINER, JOINED)
@example((8, 3), b"\x1b[?1049h", JOINER[:-1], JOINER[-1:], JOINED)
@example((8, 3), b"\x1b[?1049h", b"", b"\x1b[4h\x1b[4l\x1b[4h", b"\x1b[H\x1b[2Ja\x1b[Hb")
def test_skip_of_overwritten_drawing_is_exact(
    size: tuple[int, int], screen: bytes, joiner: bytes, earlier: bytes, last: bytes
) -> None:
    """The input before the last frame is long enough that only the last frame may be drawn."""
    frames = earlier + b"\0" * (50 * size[0] * size[1] + 10 * len(last)) + last
    expected = seen(run(ScreenModel(*size), [screen + joiner, frames], None))
    assert seen(run(ScreenModel(*size), [screen + joiner, frames], 1 << 30)) == expected
    assert seen(run(ScreenModel(*size), [screen + joiner + frames], 1 << 30)) == expected


#: Parts of the lines of a frame on the main screen. Some are not skipped: they could move the cursor or scroll.
FRAME_PART = st.one_of(
    st.sampled_from([b"a", b"text", b"w" * 8, b"w" * 9, "é─".encode(), "日本".encode(), "e\u0301".encode(), b"\r", b""]),
    st.sampled_from([b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[J", b"\x1b[2J", b"\x1b[3J", b"\x1b[P", b"\x1b[@", b"\x1b[X"]),
    st.sampled_from([b"\x1b[31m", b"\x1b[m", b"\x1b[44m", b"\x1b(0", b"\x1b(B", b"\x0e", b"\x0f", b"\x1b[4h", b"\x1b[4l"]),
    st.sampled_from([b"\x1b[?7l", b"\x1b[?7h", b"\x1b[?25l", b"\x1b[?25h", b"\x07", b"\0", b"J"]),
)
RARE_PART = st.sampled_from(
    [
        b"\t",
        b"\x1b[S",
        b"\x1b[L",
        b"\x1b[1J",
        b"\x1b[9;5H",
        b"\x1b[2;3r",
        b"\x1b7",
        b"\x1b8",
        b"\n",
        b"\x1b[?1049h",
        b"\x1bc",
        b"w" * 30,
    ]
)
LINE_END = st.sampled_from([b"", b"\x1b[K", b"\x1b[m\x1b[K"])
FRAME_LINE = st.just(b"") | st.tuples(st.lists(FRAME_PART, max_size=3).map(b"".join), LINE_END).map(b"".join)
FRAME_START = st.sampled_from([b"\x1b[H", b"\x1b[H", b"\x1b[H\x1b[2J", b"\x1b[1;1H", b"\x1b[2H", b"\x1b[3;1H"])
FRAME = st.tuples(FRAME_START, st.lists(FRAME_LINE, max_size=3).map(b"\r\n".join)).map(b"".join)
FRAMES = st.lists(FRAME, min_size=1, max_size=4).map(b"".join)
RARE_FRAME = st.tuples(FRAME, RARE_PART, FRAME_LINE).map(b"".join)


CLEARED = b"\x1b[H\x1b[2J"


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([(8, 3), (20, 4), (20, 3), (8, 1)]),
    SCROLLBACKS,
    st.sampled_from([b"", b"old"]) | LINES | STATES,
    FRAMES,
    FRAME | RARE_FRAME,
    FRAMES,
    STREAMS,
    st.integers(1000, 5000),
)
@example((8, 3), 3, b"one\r\ntwo", b"\x1b[Ha\r\n", b"\x1b[H\r\nb", CLEARED + b"c\r\n", b"", 1000)
@example((8, 3), 3, b"1\r\n2\r\n3\r\n4", b"\x1b[3J\x1b[Ha\r\nb", b"\x1b[2Hc", CLEARED + b"1\r\n2\r\n3", b"", 1000)
@example((8, 3), 3, b"", b"\x1b[H\x1b[31m\x1b[4hab\x1b(0\x0e", b"\x1b[H", CLEARED + b"c\r\n", b"q\rq", 1000)
@example((8, 3), 3, b"1\r\n2\r\n3", b"\x1b[H", b"\x1b[3H" + b"w" * 9, CLEARED + b"1\r\n2\r\n3", b"", 1000)
@example((8, 3), 3, b"1\r\n2\r\n3", b"\x1b[H", b"\x1b[2H1\r\n2\r\n3", CLEARED + b"1\r\n2\r\n3", b"", 1000)
@example((8, 3), 3, b"1\r\n2\r\n3", b"\x1b[H", b"\x1b[2H1\r\nnew", b"\x1b[H1\x1b[K\r\n2\x1b[K\r\n", b"", 1000)
@example((8, 3), 3, b"1\r\n2\r\n3", b"\x1b[H", b"\x1b[2H1\x1b[J", b"\x1b[H1\x1b[K\r\n2\x1b[K\r\n", b"", 1000)
@example((8, 3), 3, b"1\r\n2\r\n3", b"\x1b[H", b"", CLEARED + b"\0" * 10_000, b"x", 1000)
def test_skip_of_frames_on_main_screen_is_exact(
    size: tuple[int, int], scrollback: int, before: bytes, earlier: bytes, once: bytes, last: bytes, after: bytes, cut: int
) -> None:
    """The frames are repeated so often that only the last ones may be drawn."""
    enough = 40 * size[0] * size[1]
    data = before + earlier * (enough // len(earlier) // 4) + once + last * (enough // len(last) + 10) + after
    expected = seen(run(ScreenModel(*size, scrollback), [data], 1))
    assert seen(run(ScreenModel(*size, scrollback), [data], 1 << 30)) == expected
    assert seen(run(ScreenModel(*size, scrollback), [data], cut)) == expected


@pytest.mark.parametrize("shift", range(10))
def test_last_change_with_an_address_at_any_offset_attributes_lines_to_their_rows(shift: int) -> None:
    frames = b"\x1b[2;1Ha\r\nb" * 1000 + b"c" * shift
    assert last_change(frames, [3]) == 0
    assert last_change(b"\x1b[4Ha" + frames, [3]) == len(b"\x1b[4Ha")


def last_change(data: bytes, rows: list[int]) -> int:
    steps = fast_forward.last_change(data, 0, len(data), rows)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return int(done.value)


@given(scripts(), STREAMS, st.sampled_from([0, 3, 1000]))
def test_serialize_restores_screen_and_continues_alike(
    begun: tuple[ScreenModel, list[bytes | tuple[int, int]]], more: bytes, scrollback: int
) -> None:
    model = run(*begun, 1 << 30)
    model.responses.clear()
    fresh = ScreenModel(model.cols, model.rows)
    fresh.feed(model.serialize(scrollback))
    assert fresh.snapshot(attributes=True) == model.snapshot(attributes=True)
    # From here on invisible state has an effect; except REP, which needs the character before it.
    more = b"\r" + more
    model.feed(more)
    fresh.feed(more)
    assert fresh.snapshot(attributes=True) == model.snapshot(attributes=True)
    assert fresh.responses == model.responses


@given(st.lists(st.text(st.sampled_from("ab 漢é"), max_size=10)), st.integers(0, 8), st.integers(1, 5))
def test_serialize_with_scrollback_restores_lines_and_colours(lines: list[str], limit: int, rows: int) -> None:
    model, fresh = ScreenModel(20, rows), ScreenModel(20, rows)
    for number, line in enumerate(lines):
        model.feed(f"\x1b[{31 + number % 7};{40 + number % 3}m{line}\x1b[m{line[:3]}\r\n".encode())
    fresh.feed(model.serialize(limit))
    kept, drawn = (screen.scrollback_range(None, limit, attributes=True) for screen in (model, fresh))
    assert (drawn.lines, drawn.attributes, drawn.oldest) == (kept.lines, kept.attributes, 0)


@given(scripts(), scripts(), STREAMS)
def test_copy_is_independent_and_equal(
    begun: tuple[ScreenModel, list[bytes | tuple[int, int]]],
    other: tuple[ScreenModel, list[bytes | tuple[int, int]]],
    more: bytes,
) -> None:
    model = run(*begun, 1 << 30)
    kept, gone = model.copy(), model.copy()
    run(gone, other[1], 1 << 30)
    model.feed(more)
    kept.feed(more)
    assert seen(kept) == seen(model)


@given(scripts(), st.binary(max_size=3000))
def test_random_bytes_do_not_raise_and_snapshot_has_its_size(
    begun: tuple[ScreenModel, list[bytes | tuple[int, int]]], data: bytes
) -> None:
    model = run(*begun, 1 << 30)
    model.feed(data)
    snapshot = model.snapshot(attributes=True)
    assert (snapshot.cols, snapshot.rows_count, len(snapshot.rows)) == (model.cols, model.rows, model.rows)
    assert 0 <= snapshot.cursor[0] < model.rows
    assert 0 <= snapshot.cursor[1] < model.cols
    assert replace(snapshot, attributes=None) == model.snapshot()


def test_two_hundred_resizes_do_not_raise() -> None:
    model = ScreenModel(80, 24)
    for number in range(200):
        model.resize(1 + number * 7 % 200, 1 + number * 5 % 90)
        model.feed(b"\x1b[99;99H%d\r\n" % number)
    model.resize(10, 3)
    model.feed(b"\x1b[H\x1b[Jend")
    assert model.snapshot().rows == ("end", "", "")

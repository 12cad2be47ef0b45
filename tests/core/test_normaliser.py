"""Normaliser: spool text, marks and modes, independent of how the bytes are split."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.marks import MarkReader
from ptyctl.core.normaliser import BLANKS_LIMIT, SEQUENCE_LIMIT_BYTES, Normaliser, spool_size


def normalise(*pieces: bytes) -> bytes:
    machine = Normaliser()
    return b"".join([machine.feed(piece) for piece in pieces]) + machine.flush()


EXAMPLES = [
    (b"plain", b"plain"),
    (b"a\r\nb\r\r\nc\rd\ne", b"a\nb\nc\nd\ne"),
    (b"\r\r\r\n", b"\n\n"),
    (b"a\r", b"a\n"),
    (b"a\r\r", b"a\n\n"),
    (b"a\r\x00\n", b"a\n"),
    (b"\x1b[1;31mred\x1b[0m", b"red"),
    (b"a\r\x1b[K\nb", b"a\nb"),
    (b"\x1b]0;title\x07x\x1b]2;t\x1b\\y", b"xy"),
    (b"\x1bP1$r0m\x07not the end\x1b\\z\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\.", b"z."),
    (b"\x1b(B\x1b=\x1b7ok\x1b8\x1bc", b"ok"),
    (b"\x1b[31\nm", b"\nm"),
    (b"\x1b[\x1b[1mx", b"x"),
    (b"\x1b]0;torn\x1b[1mx", b"x"),
    (b"\x1b]0;cancelled\x18x", b"x"),
    (b"\x1b\x1b[1mx", b"x"),
    (b"\x07bell\x00nul\x0e\x0f tab\tbs\b", b"bellnul tab\tbs\b"),
    ("é\x1b[1mü€😀".encode(), "éü€😀".encode()),
    (b"\xff\xfe\x9b1m\x80", b"\xff\xfe\x9b1m\x80"),
    (b"open\x1b[12", b"open"),
    (b"%" + b" " * 30 + b"\r \r\r$ ", b"%        \n \n\n$ "),
    (b"%" + b" " * 30 + b"\x1b[K\r\x1b[mx", b"%        \nx"),
    (b"a" + b" " * 30 + b"\r\nb" + b" " * 30 + b"\r\r\nc" + b" " * 30 + b"\nd" + b" " * 30 + b"e" + b" " * 30, None),
    (b"a" + b" " * 30 + b"\r\r\r\nb" + b" " * 9 + b"\rc" + b" " * 8 + b"\r", b"a        \n\nb        \nc        \n"),
    (b"open\x1b]0;never", b"open"),
]

raw_bytes = st.lists(
    st.one_of(
        st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\r\n", b"\x1b", b"\x1b[", b"\x1b]", b"\x1b\\", b"\x07", b"\x18"]),
        st.sampled_from(
            [
                b"\x1b[1;3m",
                b"\x1b[?1049h",
                b" ",
                b" " * 7,
                b" " * 20,
                b" " * BLANKS_LIMIT,
                b"\x1b]0;t\x07",
                b"\x1bPx\x1b\\",
                b"\x1b(B",
                "é€😀".encode(),
                b"\x00",
                b"0;",
            ]
        ),
        st.binary(max_size=6),
    ),
    max_size=30,
).map(b"".join)


def test_feed_examples_split_anywhere_give_expected_text() -> None:
    for raw, expected in EXAMPLES:
        text = re.sub(rb"\r*\n", b"\n", raw) if expected is None else expected
        assert normalise(raw) == text, raw
        assert normalise(*(raw[i : i + 1] for i in range(len(raw)))) == text, raw
        for cut in range(len(raw) + 1):
            assert normalise(raw[:cut], raw[cut:]) == text, (raw, cut)


@given(raw_bytes, st.lists(st.integers(0, 200), max_size=8))
def test_feed_any_split_gives_same_text_and_events(raw: bytes, places: list[int]) -> None:
    whole, cut = Normaliser(), Normaliser()
    text = whole.feed(raw) + whole.flush()
    ends = sorted({min(place, len(raw)) for place in places} | {len(raw)})
    pieces = [raw[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    assert b"".join(cut.feed(piece) for piece in pieces) + cut.flush() == text
    assert (cut.marks, cut.modes, cut.raw, cut.spool) == (whole.marks, whole.modes, len(raw), len(text))


@given(raw_bytes, st.data())
def test_feed_resumed_from_any_settled_place_gives_same_text(raw: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(raw)))
    first, whole = Normaliser(), Normaliser()
    text = first.feed(raw[:cut])
    if first.settled:
        resumed = Normaliser(first.raw, first.spool, in_line=first.in_line, blanks=first.blanks)
        assert text + resumed.feed(raw[cut:]) + resumed.flush() == whole.feed(raw) + whole.flush()
        assert (resumed.spool, resumed.in_line) == (whole.spool, whole.in_line)


@given(st.integers(0, 2 * BLANKS_LIMIT), st.sampled_from([b"\rx", b"\r", b"\r\n", b"\r\r\n", b"x", b""]), st.data())
def test_feed_run_of_blanks_is_shortened_only_in_front_of_bare_cr(count: int, behind: bytes, data: st.DataObject) -> None:
    raw = b"%" + b" " * count + behind
    cut = data.draw(st.integers(0, len(raw)))
    kept = 8 if 8 < count <= BLANKS_LIMIT and behind in (b"\r", b"\rx") else count
    assert normalise(raw[:cut], raw[cut:]) == b"%" + b" " * kept + re.sub(rb"\r*\n|\r", b"\n", behind)


def test_feed_blanks_without_end_are_not_collected() -> None:
    machine = Normaliser()
    assert sum(len(machine.feed(b" " * 4096)) for _ in range(100)) == 409_600


@given(raw_bytes)
def test_feed_output_has_no_other_controls_than_lf_ht_bs(raw: bytes) -> None:
    assert not re.search(rb"[\x00-\x07\x0b-\x1f]", normalise(raw))


@given(st.lists(st.sampled_from(["word", "\n", "é", " ", "\t"]), max_size=40).map("".join))
def test_feed_plain_text_unchanged(text: str) -> None:
    assert normalise(text.replace("\n", "\r\n").encode()) == text.encode()


MARKED = b"out\x1b]7717;n;1;E;3\x07\x1b]7717;n;2;P;3;1700000000000;/a%20b\x07$ ls\r\n\x1b[?2004l\r\x1b]7717;n;3;B\x07x\r\n"


@pytest.mark.parametrize("size", range(1, 40))
def test_feed_split_marks_have_exact_offsets(size: int) -> None:
    machine = Normaliser(reader=MarkReader("n"))
    text = b"".join(machine.feed(MARKED[at : at + size]) for at in range(0, len(MARKED), size))
    assert text == b"out\n__FWS_PROMPT__ ts=1700000000000 cwd_b64=L2EgYg== exit=3\n$ ls\n\nx\n"
    end, prompt, begin = machine.marks
    assert (end.mark.kind, end.mark.status, end.raw_begin, end.raw_end, end.spool_begin) == ("end", 3, 3, 18, 3)
    assert text[prompt.spool_begin : prompt.spool_end].startswith(b"__FWS_PROMPT__ ")
    assert (prompt.mark.status, prompt.mark.cwd, prompt.mark.ts) == (3, b"/a b", 1700000000000)
    assert text[begin.spool_begin :] == b"x\n"


@pytest.mark.parametrize(
    ("behind", "text"),
    [
        (b"x", b"x"),
        (b"\rx", b"x"),
        (b"\x1b]0;title\x07\x1b[m\rx", b"x"),
        (b"\r\n", b"\n"),
        (b"\r\r\n\r\n", b"\n\n"),
        (b"\rx\r", b"x\n"),
    ],
)
def test_feed_cr_after_begin_mark_is_dropped(behind: bytes, text: bytes) -> None:
    raw = b"\x1b]7717;n;1;B\x07" + behind
    for size in range(1, len(raw) + 1):
        machine = Normaliser(reader=MarkReader("n"))
        assert b"".join(machine.feed(raw[at : at + size]) for at in range(0, len(raw), size)) + machine.flush() == text


def test_feed_old_foreign_and_malformed_marks_are_ignored() -> None:
    machine = Normaliser(reader=MarkReader("n"))
    machine.feed(MARKED)
    machine.marks.clear()
    assert machine.feed(MARKED.replace(b"\r\n", b"")).count(b"__FWS") == 0
    assert (
        machine.feed(b"\x1b]7717;other;9;B\x07\x1b]7717;n;x;B\x07\x1b]7717;n;9;E\x07\x1b]7717;n;9;E;-1\x07\x1b]7717\x07") == b""
    )
    assert not machine.marks


def test_feed_tracks_private_modes() -> None:
    machine = Normaliser()
    machine.feed(b"\x1b[?1;2004h\x1b[?25l")
    assert machine.modes == {1, 2004}
    machine.feed(b"\x1b[?1l\x1b[?99999999999999h")
    assert machine.modes == {2004}


@pytest.mark.parametrize("size", [4096, SEQUENCE_LIMIT_BYTES, 3 * SEQUENCE_LIMIT_BYTES])
def test_feed_unterminated_string_is_given_up_at_limit(size: int) -> None:
    raw = b"\x1b]" + b"x" * (SEQUENCE_LIMIT_BYTES - 2) + b"seen"
    pieces = [raw[i : i + size] for i in range(0, len(raw), size)]
    assert normalise(*pieces) == b"seen"


@pytest.mark.parametrize(("begin", "body", "end"), [("P", "x", "\x1b\\"), ("[", "1", "m"), ("(", " ", "B")])
def test_feed_long_sequence_in_small_pieces_is_linear(begin: str, body: str, end: str) -> None:
    raw = f"\x1b{begin}{body * 500_000}{end}seen".encode()
    assert normalise(*(raw[i : i + 64] for i in range(0, len(raw), 64))) == b"seen"


@given(raw_bytes | st.text(alphabet="ab \n\t\u20ac", max_size=40).map(str.encode), st.booleans())
def test_spool_size_is_that_of_the_normalised_text(data: bytes, after_begin: bool) -> None:
    machine = Normaliser(after_begin=after_begin)
    text = machine.feed(data)
    assert spool_size(data, after_begin=after_begin) == len(text) + len(machine.flush())

"""TerminalSanitizer: removes queries, clipboard access and the like, and passes everything else, for any split.

The screen model serves as the terminal: it must not respond to the output, and must draw the same screen.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ptyctl.core.sanitizer import MAX_SEQUENCE_BYTES, TerminalSanitizer
from ptyctl.core.screen import ScreenModel

DANGEROUS = [
    b"\x05", b"\x1b[6n", b"\x1b[?6n", b"\x1b[5n", b"\x1b[c", b"\x1b[0c", b"\x1b[>c", b"\x1b[=c", b"\x1bZ",
    b"\x1b[>q", b"\x1b[x",
    b"\x1b[?6$p", b"\x1b[4$p", b"\x1b[18t", b"\x1b[21t", b"\x1b[20;1t", b"\x1b[8;50;200t", b"\x1b[?u", b"\x1b[5i", b"\x1b[*y",
    b"\x1b]52;c;aGk=\x07", b"\x1b]052;c;?\x1b\\", b"\x1b]11;?\x07", b"\x1b]4;1;?\x1b\\", b"\x1b]1337;ReportCellSize\x07",
    b"\x1b]7717;nonce;1;B\x07",
    b"\x1bP$qm\x1b\\", b"\x1bP+q544e\x1b\\", b"\x1bPtmux;\x1b\x1b[6n\x1b\\", b"\x1b_Gi=1,a=q;AAAA\x1b\\", b"\x1b^pm\x1b\\",
    b"\x1b%@", b"\x1bX\x1b\\", b"\x1b[0006n", b"\x1b[\x006n", b"\x1b\x00[6n",
]  # fmt: skip
HARMLESS = [
    b"text", "é日本\u2764\ufe0f".encode(), b"\r\n", b"\t\b", b"\x07", b"\x1b[1;31m", b"\x1b[2J", b"\x1b[3;4H", b"\x1b[2 q",
    b"\x1b[?1049h", b"\x1b[?2004l", b"\x1b]2;what? a title\x07", b"\x1b]0;t\x1b\\", b"\x1b]8;;http://192.0.2.1/?a=b\x1b\\",
    b"\x1b7", b"\x1b8", b"\x1bM", b"\x1b(0", b"\x1b#8", b"\x1b[22;2t", b"\x1b[23t", b"\x1b[u", b"\x1b[s",
    b"\x1b[4h", b"\x1b[!p",
    b"\x1b[>4;1m", b"\x1b[5\nC", b"\xff", b"\x1b[1\x18", b"\x1b]4;1;rgb:00/00/00\x07",
]  # fmt: skip
HALVES = [
    b"\x1b",
    b"\x1b[",
    b"\x1b[6",
    b"[6n",
    b"n",
    b"\x1b]",
    b"52;c;",
    b"\xc2",
    b"\x9b6n",
    b"\xc2\x9b6n",
    b"\x1bP",
    b"\\",
    b"?",
]
KNOWN = st.one_of(st.sampled_from(DANGEROUS), st.sampled_from(HARMLESS))
STREAMS = st.lists(KNOWN | st.sampled_from(HALVES) | st.binary(max_size=3), max_size=20).map(b"".join)
#: Without invalid UTF-8: of that, bytes that would be drawn as replacement characters may be removed.
TEXTS = st.lists(
    KNOWN
    | st.sampled_from([half for half in HALVES if half.isascii()])
    | st.text(st.characters(max_codepoint=127), max_size=3).map(str.encode),
    max_size=20,
).map(b"".join)


def passed(*pieces: bytes) -> bytes:
    sanitizer = TerminalSanitizer()
    return b"".join(map(sanitizer.feed, pieces))


def drawn(data: bytes) -> tuple[object, list[bytes]]:
    model = ScreenModel(20, 5)
    model.feed(data)
    return model.snapshot(attributes=True), model.responses


@pytest.mark.parametrize("dangerous", DANGEROUS, ids=repr)
def test_feed_dangerous_sequence_is_removed(dangerous: bytes) -> None:
    left = passed(b"a" + dangerous + b"b")
    assert left.replace(b"\x00", b"").replace(b"\x1b\\", b"") == b"ab"  # a stray string terminator has no effect
    assert passed(*(bytes([byte]) for byte in b"a" + dangerous + b"b")) == left


@given(st.lists(st.sampled_from(HARMLESS), max_size=30))
def test_feed_harmless_sequences_pass_unchanged(pieces: list[bytes]) -> None:
    assert passed(b"".join(pieces)) == b"".join(pieces)
    assert passed(*pieces) == b"".join(pieces)


@given(STREAMS, st.data())
def test_feed_any_split_gives_same_output(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    assert passed(*(stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True))) == passed(stream)
    assert passed(*(bytes([byte]) for byte in stream)) == passed(stream)


@given(STREAMS, st.data())
@example(b"\xc2\x1b[6n\x9b", None)
@example(b"\x1b]52;c;" + b"x" * (2 * MAX_SEQUENCE_BYTES) + b"\x1b\\end", None)
def test_new_filter_fed_held_bytes_continues_at_every_cut(stream: bytes, data: st.DataObject | None) -> None:
    step = 1 if data is None or len(stream) < 2 else data.draw(st.integers(1, len(stream)))
    for cut in range(step, len(stream) + 1, max(step, len(stream) // 50)):
        first = TerminalSanitizer()
        before = first.feed(stream[: cut // 2]) + first.feed(stream[cut // 2 : cut])
        assert before + passed(stream[cut - first.held :]) == passed(stream)


@given(STREAMS)
def test_feed_output_triggers_no_response(stream: bytes) -> None:
    left = passed(stream + b"\x18")  # CAN ends a partial sequence
    assert drawn(left)[1] == []
    assert b"\x05" not in left
    assert passed(left) == left


@given(TEXTS)
@example(b"\x1b\x0cP")
@example(b"\x1b\n]52;c;\x07")
def test_feed_output_draws_same_screen(stream: bytes) -> None:
    stream += b"\x18"
    assert drawn(passed(stream))[0] == drawn(stream)[0]


@pytest.mark.parametrize(
    "stream", [b"\x1b\x1b[6n[6n", b"\x1b[6\x1b[cn", b"\xc2\xc2\x9b\x9b6n", b"\xc2\x05\x9b6n", b"\xc2\x1b[6n\x9b6n"]
)
def test_feed_removed_sequence_does_not_form_query(stream: bytes) -> None:
    left = passed(stream)
    assert b"\x1b[6n" not in left
    assert b"\xc2\x9b" not in left


@pytest.mark.parametrize("begin", [b"\x1b]2;", b"\x1b[", b"\x1b]52;c;", b"\x1b_"], ids=repr)
def test_feed_overlong_sequence_is_skipped(begin: bytes) -> None:
    long = begin + b"1" * (2 * MAX_SEQUENCE_BYTES)
    end = b"m" if begin == b"\x1b[" else b"\x1b\\"
    assert passed(b"a", long, end, b"b") == b"ab"
    assert passed(b"a" + long + end + b"b") == b"ab"

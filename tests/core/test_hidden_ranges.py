"""What is hidden in a text is not seen by a search, and its matches are told where they stand in the whole."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptyctl.core.search import MATCH_LIMIT_BYTES, Search, compile_pattern
from ptyctl.core.spool import HiddenRanges, SpoolWindow

alphabet = st.sampled_from([b"a", b"b", b"\n", "é".encode(), b"ab", b" ", b"\xff"])
texts = st.lists(alphabet, max_size=12).map(b"".join)
#: Shown and hidden pieces in turn, as a shell's output and its prompt marks are.
pieces = st.lists(st.tuples(texts, st.sampled_from([b"ab\n", b"hidden\n", b"b"])), max_size=6)
PATTERNS = ["ab", "b+a", "^ab", "(?m)^b", "a.b", r"\bab", "é", "(?s)\n.", "(?s)b\na", "hidden"]


def laid_out(parts: list[tuple[bytes, bytes]]) -> tuple[bytes, list[tuple[int, int]]]:
    whole, ranges = b"", []
    for shown, hidden in parts:
        whole += shown
        ranges.append((len(whole), len(whole) + len(hidden)))
        whole += hidden
    return whole, ranges


def seen_of(whole: bytes, ranges: list[tuple[int, int]], begin: int) -> list[int]:
    """The offsets of the bytes that are seen, in order."""
    return [at for at in range(begin, len(whole)) if not any(start <= at < end for start, end in ranges)]


@given(pieces, st.integers(0, 60), st.integers(0, 60))
def test_places_and_offsets_map_to_each_other(parts: list[tuple[bytes, bytes]], begin: int, size: int) -> None:
    whole, ranges = laid_out(parts)
    begin = min(begin, len(whole))
    end = min(begin + size, len(whole))
    within = [(start, stop) for start, stop in ranges if start < end and stop > begin]
    left = HiddenRanges(whole[begin:end], begin, within)
    seen = seen_of(whole[:end], ranges, begin)
    assert left.text == bytes(whole[at] for at in seen)
    assert [left.offset(place) for place in range(len(seen))] == seen
    assert [left.end_offset(place + 1) for place in range(len(seen))] == [at + 1 for at in seen]
    assert [left.position(at) for at in seen] == list(range(len(seen)))
    for at in range(begin, end):
        assert left.position(at) == sum(1 for other in seen if other < at)


@settings(max_examples=600)
@given(
    st.sampled_from(PATTERNS),
    pieces,
    st.lists(st.integers(0, 200), max_size=8),
    st.integers(0, 20),
    st.sampled_from([8, MATCH_LIMIT_BYTES]),
)
def test_a_search_finds_what_it_would_in_the_text_that_is_left(
    pattern: str, parts: list[tuple[bytes, bytes]], cuts: list[int], cursor: int, limit: int
) -> None:
    whole, ranges = laid_out(parts)
    cursor = min(cursor, len(whole))
    compiled = compile_pattern(pattern, "pattern")
    # a hidden line comes in one piece: it is known as soon as it is there
    allowed = [at for at in (cut % (len(whole) + 1) for cut in cuts) if not any(start < at < end for start, end in ranges)]
    places = [0, *sorted(allowed), len(whole)]
    expected = found = None
    window = SpoolWindow(1 << 20)
    search = Search(compiled, cursor, lambda begin, end: [(a, b) for a, b in ranges if a < end and b > begin])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ptyctl.core.search.MATCH_LIMIT_BYTES", limit)
        for begin, end in pairwise(places):
            window.append(whole[begin:end])
            if end < cursor:
                continue
            seen = seen_of(whole[:end], ranges, cursor)
            match = compiled.search(bytes(whole[at] for at in seen))
            expected = match and (seen[match.start()], seen[match.end() - 1] + 1)
            span = search.search(window)
            found = span and (span.start, span.end)
            assert found == expected
            if found:
                return


@pytest.mark.parametrize("pattern", ["x*", "$", r"\z"])
def test_an_empty_match_lies_before_what_is_hidden(pattern: str) -> None:
    window = SpoolWindow(1 << 10)
    window.append(b"ab--")
    span = Search(compile_pattern(f"ab{pattern}", "pattern"), 0, lambda begin, end: [(2, 4)]).search(window)
    assert span is not None
    assert (span.start, span.end) == (0, 2)

"""SpoolWindow: offsets, memory, characters. HiddenRanges: searches ignore hidden text and report offsets in the whole text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.search import MATCH_LIMIT_BYTES, Search, compile_pattern
from ptyctl.core.spool import UTF8_MAX_BYTES, HiddenRanges, SpoolWindow, last_lines, whole_characters, whole_line_ends
from tests.cost import lines_of

pieces = st.lists(st.binary(max_size=40), max_size=30)


@given(pieces, st.integers(1, 64), st.integers(0, 1000))
def test_append_keeps_last_bytes_at_their_offsets(texts: list[bytes], limit: int, base: int) -> None:
    window = SpoolWindow(limit, base)
    everything = b""
    for text in texts:
        window.append(text)
        everything += text
        assert window.end == base + len(everything)
        assert window.start == max(base, window.end - limit)
        assert window.read(window.start, window.end) == everything[-limit:]


@given(st.binary(min_size=1, max_size=100), st.integers(1, 100), st.integers(-5, 110), st.integers(-5, 110))
def test_read_range_returns_held_part(text: bytes, limit: int, begin: int, end: int) -> None:
    window = SpoolWindow(limit)
    window.append(text)
    assert window.read(begin, end) == text[max(begin, window.start, 0) : max(end, 0)]


def test_append_beyond_limit_bounds_memory() -> None:
    window = SpoolWindow(4096)
    for _ in range(2_000):
        window.append(b"x" * 1_000)
        assert len(window._bytes) <= 4096 + 256 * 1024 + 1_000
    window.append(b"y" * 1_000_000)
    assert len(window._bytes) <= 4096 + 256 * 1024
    assert window.end == 3_000_000


def test_release_keeps_offsets() -> None:
    window = SpoolWindow(100)
    window.append(b"hello")
    window.release()
    assert (window.start, window.end, window.read(0, 5)) == (5, 5, b"")
    window.append(b"more")
    assert window.read(5, 9) == b"more"


@given(st.text(min_size=1, max_size=30), st.integers(0, 130))
def test_character_start_is_on_character_boundary(text: str, offset: int) -> None:
    data = text.encode()
    window = SpoolWindow(1_000)
    window.append(data)
    begin = window.character_start(min(offset, len(data)))
    assert min(offset, len(data)) <= begin <= offset + UTF8_MAX_BYTES - 1
    data[begin:].decode()  # raises if a character was split


@given(st.text(max_size=20), st.integers(0, 90))
def test_whole_characters_excludes_incomplete_character_only(text: str, cut: int) -> None:
    data = text.encode()[:cut]
    whole = whole_characters(data)
    assert len(data) - whole < UTF8_MAX_BYTES
    assert data[:whole].decode() == data.decode("utf-8", "ignore")


@given(st.binary(max_size=40))
def test_whole_characters_invalid_utf8_holds_less_than_one_character(data: bytes) -> None:
    whole = whole_characters(data)
    assert len(data) - UTF8_MAX_BYTES < whole <= len(data)
    held = data[whole:]
    assert not held or held[0] >= 0xC2  # only the start of a multi-byte character


def test_whole_characters_invalid_start_bytes_are_counted() -> None:
    for data in (b"\x80", b"\x80\x80\x80\x80", b"\xc0", b"\xc1", b"\xf5", b"\xff", b"a\x80", b""):
        assert whole_characters(data) == len(data)
    for data in (b"\xc2", b"\xe2\x82", b"\xf0\x9f\x98"):
        assert whole_characters(b"x" + data) == 1


def test_whole_line_ends_drop_the_lines_that_are_cut() -> None:
    assert whole_line_ends(b"one\ntw", b"ree\nfour\n") == (b"one\n", b"four\n")
    assert whole_line_ends(b"one\xe2\x82", b"four") == (b"one", b"four")


@given(st.text(max_size=20), st.integers(0, 80))
def test_whole_line_ends_cut_a_long_line_between_characters(text: str, cut: int) -> None:
    data = text.replace("\n", "").encode()
    head, tail = whole_line_ends(data[:cut], data[cut:])
    assert head.decode() == data[:cut].decode("utf-8", "ignore")
    assert tail.decode() == data[cut:].decode("utf-8", "ignore")


alphabet = st.sampled_from([b"a", b"b", b"\n", "é".encode(), b"ab", b" ", b"\xff"])
texts = st.lists(alphabet, max_size=12).map(b"".join)
#: Visible and hidden pieces in turn, like shell output and prompt lines.
visible_and_hidden = st.lists(st.tuples(texts, st.sampled_from([b"ab\n", b"hidden\n", b"b"])), max_size=6)
PATTERNS = ["ab", "b+a", "^ab", "(?m)^b", "a.b", r"\bab", "é", "(?s)\n.", "(?s)b\na", "hidden"]


def laid_out(parts: list[tuple[bytes, bytes]]) -> tuple[bytes, list[tuple[int, int]]]:
    whole, ranges = b"", []
    for shown, hidden in parts:
        whole += shown
        ranges.append((len(whole), len(whole) + len(hidden)))
        whole += hidden
    return whole, ranges


def seen_of(whole: bytes, ranges: list[tuple[int, int]], begin: int) -> list[int]:
    """Return the offsets of the visible bytes, in order."""
    return [at for at in range(begin, len(whole)) if not any(start <= at < end for start, end in ranges)]


@given(visible_and_hidden, st.integers(0, 60), st.integers(0, 60))
def test_positions_and_offsets_map_to_each_other(parts: list[tuple[bytes, bytes]], begin: int, size: int) -> None:
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


@given(
    st.sampled_from(PATTERNS),
    visible_and_hidden,
    st.lists(st.integers(0, 200), max_size=8),
    st.integers(0, 20),
    st.sampled_from([8, MATCH_LIMIT_BYTES]),
)
def test_search_with_hidden_ranges_equals_search_of_visible_text(
    pattern: str, parts: list[tuple[bytes, bytes]], cuts: list[int], cursor: int, limit: int
) -> None:
    whole, ranges = laid_out(parts)
    cursor = min(cursor, len(whole))
    compiled = compile_pattern(pattern, "pattern")
    # a hidden line arrives in one piece: it is known at once
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
def test_empty_match_is_before_hidden_range(pattern: str) -> None:
    window = SpoolWindow(1 << 10)
    window.append(b"ab--")
    span = Search(compile_pattern(f"ab{pattern}", "pattern"), 0, lambda begin, end: [(2, 4)]).search(window)
    assert span is not None
    assert (span.start, span.end) == (0, 2)


@given(st.lists(st.sampled_from([b"\n", b"a\n", b"b" * 3_000 + b"\n", b"c"]), max_size=50).map(b"".join), st.integers(1, 60))
def test_last_lines_begin_as_in_list_of_lines(text: bytes, count: int) -> None:
    assert text[last_lines(text, count) :] == b"".join(text.splitlines(keepends=True)[-count:])


@pytest.mark.parametrize("count", [1, 500_000, 2_000_000])
def test_last_lines_of_many_take_few_steps(count: int) -> None:
    assert lines_of(lambda: last_lines(b"\n" * 1_000_000, count)) < 20_000

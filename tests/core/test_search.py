"""Incremental search: the same result as one search over the whole text, for any split of the bytes."""

from __future__ import annotations

import random
import re
import time
from contextlib import suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.api.errors import PtyctlError
from ptyctl.core.search import (
    MATCH_LIMIT_BYTES,
    AnyMatch,
    AnyPattern,
    MatchRange,
    Search,
    TimedPattern,
    compile_all,
    compile_pattern,
    line_pattern,
    literal_pattern,
    program_size,
)
from ptyctl.core.spool import SpoolWindow


def in_pieces(pattern: str, text: bytes, cuts: list[int], cursor: int = 0, limit: int = 1 << 24) -> MatchRange | None:
    return in_pieces_of(compile_pattern(pattern, "pattern"), text, cuts, cursor, limit)


def in_pieces_of(pattern: Any, text: bytes, cuts: list[int], cursor: int = 0, limit: int = 1 << 24) -> MatchRange | None:
    """Return the first match of searches after each piece."""
    window = SpoolWindow(limit)
    search = Search(pattern, cursor)
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for begin, end in pairwise(places):
        window.append(text[begin:end])
        found = search.search(window)
        if found is not None:
            return found
    return None


def at_once(pattern: str, text: bytes, cursor: int = 0) -> MatchRange | None:
    found = compile_pattern(pattern, "pattern").search(text[cursor:])
    return found and MatchRange(cursor + found.start(), cursor + found.end())


#: Patterns whose match depends only on the matched bytes, not on the bytes that follow.
FIXED = ["ab", "b+a", "(?i)A", "^ab", "(?m)^b", "a.b", "[^a]b", r"\bab", "(ab|ba)b", "é", "a€", "(?s)\n.", "aab|b"]
ALPHABET = [b"a", b"b", b"\n", "é".encode(), "€".encode(), b"ab", b" ", b"\xff", b"\x80"]
texts = st.lists(st.sampled_from(ALPHABET), max_size=40).map(b"".join)
cuts = st.lists(st.integers(0, 200), max_size=12)


def least_end(pattern: str, text: bytes, cursor: int) -> int:
    """Return the end of the shortest prefix with a match."""
    return next(end for end in range(cursor, len(text) + 1) if at_once(pattern, text[:end], cursor))


def first_that_has_one(pattern: str, text: bytes, cuts: list[int], cursor: int) -> MatchRange | None:
    """Return the leftmost match in the shortest searched prefix with a match."""
    for place in sorted({cut % (len(text) + 1) for cut in cuts} | {len(text)}):
        if place >= cursor and (found := at_once(pattern, text[:place], cursor)):
            return found
    return None


@given(st.sampled_from(FIXED), texts, cuts, st.integers(0, 20))
def test_search_pieces_finds_leftmost_match_of_shortest_prefix(pattern: str, text: bytes, cuts: list[int], cursor: int) -> None:
    cursor = min(cursor, len(text))
    assert in_pieces(pattern, text, cuts, cursor) == first_that_has_one(pattern, text, cuts, cursor)


@pytest.mark.parametrize("seed", range(4))
def test_search_pieces_at_match_limit_finds_leftmost_match(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.core.search.MATCH_LIMIT_BYTES", 8)  # no pattern here matches more
    chance = random.Random(seed)
    for _ in range(4_000):
        text = b"".join(chance.choices(ALPHABET, k=chance.randrange(10, 50)))
        cuts = [chance.randrange(len(text)) for _ in range(chance.randrange(12))]
        pattern, cursor = chance.choice(FIXED), chance.randrange(len(text))
        assert in_pieces(pattern, text, cuts, cursor) == first_that_has_one(pattern, text, cuts, cursor), (pattern, text, cuts)


@given(st.sampled_from(["ab", "é€", "(?m)^ab", "bb?a", r"\ba"]), texts, cuts)
def test_search_pieces_finds_match_if_whole_text_has_one(pattern: str, text: bytes, cuts: list[int]) -> None:
    found = in_pieces(pattern, text, cuts)
    whole = at_once(pattern, text)
    assert (found is None) == (whole is None)
    if found is not None and whole is not None:
        assert found.start == whole.start or found.start < whole.end  # the leftmost match at that time
        assert found.end >= least_end(pattern, text, 0)


@pytest.mark.parametrize("size", [10, 1_000, MATCH_LIMIT_BYTES - 1, MATCH_LIMIT_BYTES])
def test_search_64_kib_match_in_pieces_found(size: int) -> None:
    chance = random.Random(size)
    text = b"noise " * 20_000 + b"<" + b"x" * (size - 2) + b">" + b" more"
    place = text.index(b"<")
    for step in (1_000, 4_096, 65_536, 70_000, chance.randrange(500, 50_000)):
        cuts = list(range(chance.randrange(step), len(text), step))
        assert in_pieces("(?s)<[^<>]*>", text, cuts) == MatchRange(place, place + size), step
    cuts = [place + 1, place + size - 1]
    assert in_pieces("(?s)<[^<>]*>", text, cuts) == MatchRange(place, place + size)


@pytest.mark.parametrize(("text", "limit"), [(b"x+", MATCH_LIMIT_BYTES), (b"line protocol", 32)])
def test_search_repeated_rescans_at_most_64_kib_or_the_literal(text: bytes, limit: int) -> None:
    """With pieces of 4 KiB, each call reads the piece and at most the longest match before it."""
    seen: list[int] = []

    class Counting:
        pattern = text
        programsize = 4

        def search(self, text: bytes, begin: int = 0) -> None:
            seen.append(len(text) - begin)

    window = SpoolWindow(1 << 24)
    search = Search(Counting(), 0)
    for _ in range(500):
        window.append(b"x" * 4_096)
        search.search(window)
    assert max(seen) <= limit + 4_096 + 8


@given(texts, cuts, st.integers(4, 30))
def test_search_shortened_window_starts_at_window_start(text: bytes, cuts: list[int], limit: int) -> None:
    found = in_pieces("ab", text, cuts, limit=limit)
    if found is not None:
        assert text[found.start : found.end] == b"ab"


def test_search_caret_matches_at_cursor() -> None:
    assert in_pieces("^b", b"ab", [], cursor=1) == MatchRange(1, 2)
    assert in_pieces("^b", b"ab", []) is None
    assert in_pieces("^b", b"a" * 100_000 + b"b", [99_999]) is None
    assert in_pieces("(?m)^b", b"a" * 100_000 + b"\nb", [100_000]) == MatchRange(100_001, 100_002)
    assert in_pieces("^$", b"", []) == MatchRange(0, 0)


def test_search_does_not_split_characters() -> None:
    text = "é" * 100_000
    assert in_pieces("[^é]", text.encode(), list(range(1, 200_000, 4_097))) is None
    assert in_pieces(".b", (text + "b").encode(), list(range(1, 200_000, 4_097))) == MatchRange(199_998, 200_001)


@pytest.mark.parametrize(
    ("pattern", "lacking"),
    [
        ("a(?=b)", "lookahead"),
        ("a(?!b)", "lookahead"),
        ("(?<=a)b", "lookbehind"),
        ("(?<!a)b", "lookbehind"),
        ("(?>a)", "atomic groups"),
        (r"(a)\1", "backreferences"),
        ("(?P<n>a)(?P=n)", "backreferences"),
        ("(a)(?(1)b|c)", "conditionals"),
        ("a(?#note)b", "comments"),
    ],
)
def test_compile_unsupported_syntax_error_names_feature(pattern: str, lacking: str) -> None:
    with pytest.raises(PtyctlError, match=re.escape(f"until_regex: {pattern!r}")) as caught:
        compile_pattern(pattern, "until_regex")
    assert f"RE2 has no {lacking}" in caught.value.message
    assert caught.value.details["field"] == "until_regex"


@pytest.mark.parametrize("pattern", ["(", "[", "a**", "x{2000}", "\\", "[z-a]"])
def test_compile_invalid_pattern_error_names_field(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PtyctlError, match="is not a valid pattern") as caught:
        compile_all(("ok", pattern), "expect.error_regexes")
    assert caught.value.details["field"] == "expect.error_regexes[1]"
    assert "b'" not in caught.value.message
    assert capfd.readouterr().err == ""  # RE2 logs errors to stderr by default


@given(texts.filter(bool), texts, cuts, st.integers(0, 20))
def test_literal_pattern_matches_like_escaped_regex(wanted: bytes, text: bytes, cuts: list[int], cursor: int) -> None:
    literal = wanted.decode("utf-8", "replace")
    pattern = compile_pattern(re.escape(literal), "pattern")
    cursor = min(cursor, len(text))
    found = [in_pieces_of(searched, text, cuts, cursor) for searched in (literal_pattern(literal), pattern)]
    assert found[0] == found[1]


def test_long_literal_with_near_matches_is_fast() -> None:
    """RE2 would take a minute."""
    nearly = b"x" * 9_999 + b"y"
    assert in_pieces_of(literal_pattern("x" * 10_000), nearly * 200 + b"x" * 10_000, []) == MatchRange(
        200 * len(nearly), 201 * len(nearly)
    )


def test_search_exponential_pattern_is_linear() -> None:
    """Exponential time in other engines: on failure this test does not end."""
    window = SpoolWindow(1 << 24)
    window.append(b"a" * 100_000)
    assert Search(compile_pattern("(a+)+$|(a|aa)+b", "p"), 0).search(window) == MatchRange(0, 100_000)


def test_short_literal_in_growing_text_costs_at_most_twice_one_search() -> None:
    text = b"GigabitEthernet1/0/1 is up, line protocol is up (connected)\n" * 250_000 + b"core-sw1#"
    pattern, ratios = compile_pattern("core-sw1#", "pattern"), []
    for _ in range(5):
        window, search, started = SpoolWindow(1 << 21), Search(literal_pattern("core-sw1#"), 0), time.process_time()
        assert pattern.search(text) is not None
        once, spent = time.process_time() - started, 0.0
        for begin in range(0, len(text), 1 << 19):
            window.append(text[begin : begin + (1 << 19)])
            started = time.process_time()
            found = search.search(window)
            spent += time.process_time() - started
        assert found == MatchRange(len(text) - 9, len(text))
        ratios.append(spent / once)
    assert min(ratios) < 2


@given(
    st.text("ab\n", max_size=60), st.sampled_from([r"a+b", r"(?m)^b.*$", r"\bab\b", r"(?s)a.{0,5}b$", r"b\z", ""]), st.data()
)
def test_search_in_slices_finds_the_match_of_the_whole_text(text: str, pattern: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text)))
    compiled, content = compile_pattern(pattern, "pattern"), text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ptyctl.core.search._SLICE_BYTES", 7)
        patch.setattr("ptyctl.core.search.MATCH_LIMIT_BYTES", 60)
        found = TimedPattern(compiled, lambda: 0.0, 1.0).search(content, begin)
    expected = compiled.search(content, begin)
    assert (found and found.span()) == (expected and expected.span())


def test_program_size_grows_with_repetitions_and_is_one_for_a_literal() -> None:
    assert [program_size(compile_pattern(pattern, "pattern")) for pattern in ("foo", r"foo\.bar")] == [1, 1]
    assert program_size(compile_pattern("a[ab]{100}z", "pattern")) > 100


class RecordingPattern(AnyPattern):
    """A pattern that pretends to have a program of some size, and records how many bytes each search reads."""

    def __init__(self, pattern: Any, size: int) -> None:
        super().__init__([pattern])
        self.size = size
        self.searched: list[int] = []

    @property
    def program_size(self) -> int:
        return self.size

    def search(self, text: Any, begin: int = 0, end: int | None = None) -> AnyMatch | None:
        self.searched.append((len(text) if end is None else end) - begin)
        return super().search(text, begin, end)


@pytest.mark.parametrize("size", [1, 100, 5_000, 20_000, 100_000])
def test_search_with_large_program_reads_few_bytes_at_a_time(size: int) -> None:
    pattern, content = RecordingPattern(compile_pattern("xyz", "pattern"), size), b"a" * 50_000 + b"xyz" + b"a" * 50_000
    found = TimedPattern(pattern, lambda: 0.0, 1.0).search(content)
    assert (found.start(), found.end()) == (50_000, 50_003)
    assert max(pattern.searched) * size < 300_000_000
    search, window = Search(pattern, 0), SpoolWindow(1 << 20)
    for begin in range(0, len(content), 10_000):
        window.append(content[begin : begin + 10_000])
        assert search.steps(window) <= (10_000 + 64 * 1024) * size
        if (match := search.search(window)) is not None:
            break
    assert match == MatchRange(50_000, 50_003)
    assert pattern.searched[-1] * size < 2_000_000_000


@pytest.mark.parametrize(
    ("pattern", "is_limited"),
    [
        ("once [a-z]+ and again", False),
        (r"(?:\d{1,3}\.){3}\d{1,3}", False),
        ("x.{0,1000}y", True),
        (r"\pL+", True),
        ("(?:a.{0,300}){3}.{600}", True),
        ("[^ab]{1000}", True),
        ("[ÀÂÄÈÊËÎÏÔÖÛÜ]{900}" * 9, True),
        (r"(?:\w{1,40}[^\n]{0,60}){1,25}", True),
    ],
)
def test_only_pattern_that_may_be_too_large_is_compiled_with_limited_memory_first(
    pattern: str, is_limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory: list[int] = []

    def record(text: bytes, options: Any) -> Any:
        memory.append(options.max_mem)
        return re2.compile(text, options)

    monkeypatch.setattr("ptyctl.core.search.re2", SimpleNamespace(compile=record, error=re2.error))
    compile_pattern.cache_clear()
    with suppress(PtyctlError):
        line_pattern(pattern, "grep")
    assert (memory[0] < 1 << 20) is is_limited
    assert is_limited or len(memory) == 1


def test_list_of_patterns_with_too_large_programs_together_is_refused() -> None:
    with pytest.raises(PtyctlError, match=r"until_any\[2\]: the pattern is too complex: the list compiles to more than 12000"):
        compile_all([f"a.{{0,450}}{end}" for end in "xyz"], "until_any")


def test_fault_of_a_line_pattern_shows_the_pattern_as_given() -> None:
    with pytest.raises(PtyctlError, match="grep") as caught:
        line_pattern("a(b", "grep")
    assert "(?m)" not in caught.value.message

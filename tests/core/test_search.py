"""An incremental search finds what one search over everything would have found, however the bytes came."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptyctl.api.errors import PtyctlError
from ptyctl.core.search import MATCH_LIMIT_BYTES, LiteralPattern, MatchRange, Search, compile_all, compile_pattern
from ptyctl.core.spool import SpoolWindow


def in_pieces(pattern: str, text: bytes, cuts: list[int], cursor: int = 0, limit: int = 1 << 24) -> MatchRange | None:
    return in_pieces_of(compile_pattern(pattern, "pattern"), text, cuts, cursor, limit)


def in_pieces_of(pattern: Any, text: bytes, cuts: list[int], cursor: int = 0, limit: int = 1 << 24) -> MatchRange | None:
    """The first match, looked for after each piece."""
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


#: Patterns whose match is decided by the bytes in it, so that it does not matter what follows.
FIXED = ["ab", "b+a", "(?i)A", "^ab", "(?m)^b", "a.b", "[^a]b", r"\bab", "(ab|ba)b", "é", "a€", "(?s)\n.", "aab|b"]
ALPHABET = [b"a", b"b", b"\n", "é".encode(), "€".encode(), b"ab", b" ", b"\xff", b"\x80"]
texts = st.lists(st.sampled_from(ALPHABET), max_size=40).map(b"".join)
cuts = st.lists(st.integers(0, 200), max_size=12)


def least_end(pattern: str, text: bytes, cursor: int) -> int:
    """Where the first prefix that matches at all ends."""
    return next(end for end in range(cursor, len(text) + 1) if at_once(pattern, text[:end], cursor))


def first_that_has_one(pattern: str, text: bytes, cuts: list[int], cursor: int) -> MatchRange | None:
    """The leftmost match in the shortest prefix, among those that are looked at, that has one."""
    for place in sorted({cut % (len(text) + 1) for cut in cuts} | {len(text)}):
        if place >= cursor and (found := at_once(pattern, text[:place], cursor)):
            return found
    return None


@given(st.sampled_from(FIXED), texts, cuts, st.integers(0, 20))
def test_the_leftmost_match_of_the_first_piece_that_has_one(pattern: str, text: bytes, cuts: list[int], cursor: int) -> None:
    cursor = min(cursor, len(text))
    assert in_pieces(pattern, text, cuts, cursor) == first_that_has_one(pattern, text, cuts, cursor)


@pytest.mark.parametrize("seed", range(4))
def test_the_same_where_the_bound_is_reached(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptyctl.core.search.MATCH_LIMIT_BYTES", 8)  # no pattern here matches more
    chance = random.Random(seed)
    for _ in range(4_000):
        text = b"".join(chance.choices(ALPHABET, k=chance.randrange(10, 50)))
        cuts = [chance.randrange(len(text)) for _ in range(chance.randrange(12))]
        pattern, cursor = chance.choice(FIXED), chance.randrange(len(text))
        assert in_pieces(pattern, text, cuts, cursor) == first_that_has_one(pattern, text, cuts, cursor), (pattern, text, cuts)


@settings(max_examples=300)
@given(st.sampled_from(["ab", "é€", "(?m)^ab", "bb?a", r"\ba"]), texts, cuts)
def test_a_match_is_found_if_there_is_one(pattern: str, text: bytes, cuts: list[int]) -> None:
    found = in_pieces(pattern, text, cuts)
    whole = at_once(pattern, text)
    assert (found is None) == (whole is None)
    if found is not None and whole is not None:
        assert found.start == whole.start or found.start < whole.end  # the leftmost of what had come by then
        assert found.end >= least_end(pattern, text, 0)


@pytest.mark.parametrize("size", [10, 1_000, MATCH_LIMIT_BYTES - 1, MATCH_LIMIT_BYTES])
def test_a_match_of_64_kib_however_it_was_cut(size: int) -> None:
    chance = random.Random(size)
    text = b"noise " * 20_000 + b"<" + b"x" * (size - 2) + b">" + b" more"
    place = text.index(b"<")
    for step in (1_000, 4_096, 65_536, 70_000, chance.randrange(500, 50_000)):
        cuts = list(range(chance.randrange(step), len(text), step))
        assert in_pieces("(?s)<[^<>]*>", text, cuts) == MatchRange(place, place + size), step
    cuts = [place + 1, place + size - 1]
    assert in_pieces("(?s)<[^<>]*>", text, cuts) == MatchRange(place, place + size)


def test_what_is_searched_again_is_bounded() -> None:
    """Pieces of 4 KiB: each evaluation sees its own bytes, and 64 KiB before them at most."""
    seen: list[int] = []

    class Counting:
        def search(self, text: bytes, begin: int = 0) -> None:
            seen.append(len(text) - begin)

    window = SpoolWindow(1 << 24)
    search = Search(Counting(), 0)
    for _ in range(500):
        window.append(b"x" * 4_096)
        search.search(window)
    assert max(seen) <= MATCH_LIMIT_BYTES + 4_096 + 8


@given(texts, cuts, st.integers(4, 30))
def test_a_window_that_lost_the_beginning_is_searched_from_what_is_left(text: bytes, cuts: list[int], limit: int) -> None:
    found = in_pieces("ab", text, cuts, limit=limit)
    if found is not None:
        assert text[found.start : found.end] == b"ab"


def test_the_cursor_is_the_beginning() -> None:
    assert in_pieces("^b", b"ab", [], cursor=1) == MatchRange(1, 2)
    assert in_pieces("^b", b"ab", []) is None
    assert in_pieces("^b", b"a" * 100_000 + b"b", [99_999]) is None
    assert in_pieces("(?m)^b", b"a" * 100_000 + b"\nb", [100_000]) == MatchRange(100_001, 100_002)
    assert in_pieces("^$", b"", []) == MatchRange(0, 0)


def test_characters_are_not_cut_apart() -> None:
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
def test_what_re2_lacks_is_named(pattern: str, lacking: str) -> None:
    with pytest.raises(PtyctlError, match=re.escape(f"until_regex: {pattern!r}")) as caught:
        compile_pattern(pattern, "until_regex")
    assert f"RE2 has no {lacking}" in caught.value.message
    assert caught.value.details["field"] == "until_regex"


@pytest.mark.parametrize("pattern", ["(", "[", "a**", "x{2000}", "\\", "[z-a]"])
def test_what_is_no_pattern(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PtyctlError, match="is not a valid pattern") as caught:
        compile_all(("ok", pattern), "expect.error_regexes")
    assert caught.value.details["field"] == "expect.error_regexes[1]"
    assert "b'" not in caught.value.message
    assert capfd.readouterr().err == ""  # the library would write there by itself


@given(texts.filter(bool), texts, cuts, st.integers(0, 20))
def test_a_literal_is_found_where_its_pattern_is(wanted: bytes, text: bytes, cuts: list[int], cursor: int) -> None:
    literal = wanted.decode("utf-8", "replace")
    pattern = compile_pattern(re.escape(literal), "pattern")
    cursor = min(cursor, len(text))
    found = [in_pieces_of(searched, text, cuts, cursor) for searched in (LiteralPattern(literal), pattern)]
    assert found[0] == found[1]


def test_a_long_literal_that_nearly_comes_takes_no_time() -> None:
    """RE2 would be at it for a minute."""
    nearly = b"x" * 9_999 + b"y"
    assert in_pieces_of(LiteralPattern("x" * 10_000), nearly * 200 + b"x" * 10_000, []) == MatchRange(
        200 * len(nearly), 201 * len(nearly)
    )


def test_no_pattern_takes_long() -> None:
    """Exponential in other engines; a broken test would not come back."""
    window = SpoolWindow(1 << 24)
    window.append(b"a" * 100_000)
    assert Search(compile_pattern("(a+)+$|(a|aa)+b", "p"), 0).search(window) == MatchRange(0, 100_000)

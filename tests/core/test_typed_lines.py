"""`TypedLines`: the echo of typed lines is told from other output, which is never held or lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.hidden_ranges import TypedLines

LINE = " __ptyctl 9 B \"$?\"&&: eval 'echo a\necho b # x';__ptyctl 10 E"
ECHO = LINE.replace("\n", "\r\n").encode() + b"\r\n"


def other_output(data: bytes, places: list[int], lines: TypedLines) -> bytes:
    """Return what is told to be no echo, for output in pieces."""
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    ranges = [each for begin, end in pairwise(ends) for each in lines.feed(begin, data[begin:end])]
    assert all(before[1] <= behind[0] for before, behind in pairwise(ranges))
    return b"".join(data[begin:end] for begin, end in ranges)


def typed_lines() -> TypedLines:
    lines = TypedLines("$ ")
    lines.expect(LINE + "\n")
    return lines


@given(st.lists(st.integers(0, 200), max_size=12))
def test_feed_echo_in_pieces_of_any_size_is_no_other_output(places: list[int]) -> None:
    assert other_output(ECHO, places, typed_lines()) == b""


@given(st.lists(st.sampled_from([b"BG12", b"0", b"a", b"e", b"echo", b"\x1b[31mlog\x1b[m"]), min_size=1), st.data())
def test_feed_other_rows_before_and_after_the_echo_are_returned(rows: list[bytes], data: st.DataObject) -> None:
    other = b"".join(row + b"\r\n" for row in rows)
    places = data.draw(st.lists(st.integers(0, 400), max_size=12))
    assert other_output(other + ECHO + other, places, typed_lines()) == 2 * other


@pytest.mark.parametrize("query", [b"\x1b[6n", b"\x1b[c", b"\x1b]11;?\x07"])
@given(places=st.lists(st.integers(0, 200), max_size=12))
def test_feed_query_within_the_echo_is_other_output(query: bytes, places: list[int]) -> None:
    assert other_output(query + ECHO[:10] + query + ECHO[10:], places, typed_lines()) == 2 * query


def test_feed_question_without_a_line_end_is_returned_at_once() -> None:
    assert typed_lines().feed(7, b"Password: ") == [(7, 17)]

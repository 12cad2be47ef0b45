"""`HiddenRanges`: what viewers see for received bytes, read in pieces of any size."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.hidden_ranges import HiddenRange, HiddenRanges, modes_of, read_hidden, row_fields, shown_command


@st.composite
def outputs(draw: st.DrawFn) -> tuple[bytes, list[HiddenRange]]:
    """Draw output and ranges of it; a shown text may be longer than its range."""
    data = draw(st.binary(min_size=1, max_size=60))
    places = draw(st.lists(st.integers(0, len(data)), max_size=8, unique=True).map(sorted))
    return data, [HiddenRange(*pair, draw(st.binary(max_size=12))) for pair in list(pairwise(places))[::2]]


def shown_whole(data: bytes, ranges: list[HiddenRange]) -> bytes:
    """Return the shown output by definition."""
    shown, at = b"", 0
    for each in ranges:
        shown, at = shown + data[at : each.begin] + each.shown, each.end
    return shown + data[at:]


@given(outputs(), st.lists(st.integers(0, 60)))
def test_output_in_pieces_of_any_size_is_shown_as_the_whole(output: tuple[bytes, list[HiddenRange]], cuts: list[int]) -> None:
    data, ranges = output
    hidden = HiddenRanges(ranges)
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    pieces = b"".join(hidden.show(begin, data[begin:end]) for begin, end in pairwise(places))
    assert pieces == hidden.show(0, data) == shown_whole(data, ranges)


@given(outputs(), st.integers(0, 60))
def test_pieces_begin_at_the_offsets_from_which_they_are_read(output: tuple[bytes, list[HiddenRange]], begin: int) -> None:
    data, ranges = output
    begin = min(begin, len(data))
    hidden = HiddenRanges(ranges)
    pieces = hidden.pieces(begin, data[begin:])
    assert b"".join(piece for _, piece in pieces) == hidden.show(begin, data[begin:])
    for at, piece in pieces:
        assert hidden.show(at, data[at:]).startswith(piece)


def test_range_that_overlaps_an_earlier_one_is_not_added() -> None:
    hidden = HiddenRanges([HiddenRange(2, 6, b"x")])
    hidden.add(HiddenRange(4, 8, b"y"))
    hidden.add(HiddenRange(8, 8, b"z"))
    assert hidden.show(0, b"0123456789") == b"01x6789"


@given(st.integers(0, 100), st.integers(1, 100), st.text())
def test_row_of_a_range_restores_it(begin: int, size: int, shown: str) -> None:
    hidden = HiddenRange(begin, begin + size, shown.encode("utf-8", "replace"))
    assert read_hidden(json.loads(json.dumps(row_fields(hidden)))) == hidden


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"from": 1, "to": 1, "shown": ""},
        {"from": -1, "to": 3, "shown": ""},
        {"from": "1", "to": 3, "shown": ""},
        {"from": 1, "to": None, "shown": ""},
        {"from": True, "to": 3, "shown": ""},
        {"from": 1, "to": 3, "shown": []},
    ],
)
def test_row_with_other_values_is_no_range(row: dict[str, Any]) -> None:
    assert read_hidden(row) is None


def test_modes_of_keeps_the_last_change_of_each_mode() -> None:
    assert modes_of(b"\x1b[?2004lx\x1b[?1h\x1b=y\x1b[?2004h\x1b[31m") == b"\x1b[?1h\x1b=\x1b[?2004h"


def test_shown_command_has_no_control_characters() -> None:
    assert shown_command("a\tb\x1b[2J\x7f\nc\r\nd") == b"a\tb^[[2J^?\r\nc\r\nd\r\n"

"""Widths: the one that a byte came at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.renderer import WidthHistory


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 300)), max_size=6), st.integers(0, 20), st.integers(0, 20))
def test_each_byte_has_the_width_of_the_last_resize_before_it(resizes: list[tuple[int, int]], begin: int, size: int) -> None:
    resizes.sort(key=lambda resize: resize[0])
    widths, end = WidthHistory(80, resizes), begin + size
    columns, changes = widths.width_at(begin), dict(widths.changes_between(begin, end))
    for offset in range(begin, end):
        columns = changes.get(offset - begin, columns)
        assert columns == next((width for place, width in reversed(resizes) if place <= offset), 80)

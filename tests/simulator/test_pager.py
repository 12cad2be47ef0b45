"""Paged output."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.simulator.pager import IOS_PAGER, PagedText
from tests.simulator.screen_rows import screen_rows


class TestPager:
    def test_eraser_leaves_empty_row(self) -> None:
        assert screen_rows(IOS_PAGER.prompt + IOS_PAGER.eraser + "x") == ["x"]

    @given(st.lists(st.text("abc", max_size=30)), st.integers(0, 6), st.integers(0, 12), st.text("pl", min_size=1))
    def test_pages_and_lines_add_up_to_text(self, lines: list[str], length: int, width: int, keys: str) -> None:
        text = "".join(line + "\n" for line in lines)
        pager, pieces = PagedText(text), []
        for turn in range(len(lines) + 1):
            pieces.append(pager.next_page(length, width) if keys[turn % len(keys)] == "p" else pager.next_line())
        assert "".join(pieces) == text
        assert pager.done

    def test_page_leaves_row_for_prompt(self) -> None:
        assert PagedText("a\n" * 30).next_page(10, 80) == "a\n" * 9

    def test_wrapped_line_takes_several_rows(self) -> None:
        assert PagedText(("x" * 15 + "\n") * 30).next_page(10, 10) == ("x" * 15 + "\n") * 4

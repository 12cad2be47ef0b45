"""Blanks right of the cursor, with which a line editor clears the rest of its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.renderer import render_line
from ptyctl.session.io.terminal_state import without_fill


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"$ x     \b\b\b\b\b", b"$ x"),
        (b"$     \b\b\b\b", b"$ "),
        (b"$ x \b\b\b", b"$ x\b\b"),
        (b"$ x", b"$ x"),
        (b"$ ", b"$ "),
        (b"", b""),
        (b"$ half\b \b", b"$ half\b \b"),
        (b"$ abc\b\b\b   \b\b\b", b"$ abc\b\b\b   \b\b\b"),
    ],
)
def test_line_has_no_blanks_right_of_the_cursor_unless_they_overwrite_text(line: bytes, expected: bytes) -> None:
    assert without_fill(line) == expected


@given(st.binary().map(lambda data: bytes(b"ab  \b\b"[byte % 6] for byte in data)))
def test_line_without_fill_shows_the_same_text(line: bytes) -> None:
    assert render_line(without_fill(line)).rstrip() == render_line(line).rstrip()

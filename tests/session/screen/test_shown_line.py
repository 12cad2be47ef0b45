"""The line at the cursor, read from the screen."""

from __future__ import annotations

import pytest

from ptyctl.core.screen import ScreenSnapshot
from ptyctl.session.screen.shown_line import first_row_of, lines_from, may_be_hidden, rows_above, shown_lines, text_after


def screen(*rows: str, column: int | None = None, cols: int = 80, row: int | None = None) -> ScreenSnapshot:
    """A screen whose cursor is in the last row by default."""
    row = len(rows) - 1 if row is None else row
    cursor = row, len(rows[row]) if column is None else column
    return ScreenSnapshot(tuple(row.rstrip() for row in rows), cursor, True, "", False, cols, 24)


@pytest.mark.parametrize(
    ("rows", "prompt", "expected"),
    [
        (("$ reload",), "$ ", "reload"),
        (("$ ",), "$ ", ""),
        (("R1# reload",), None, "reload"),
        (("$ a^Jreload",), "$ ", "a\nreload"),
        (("$ #reload",), "$ ", "reload"),
        (("$ reload", "now"), "$ ", "reload\nnow"),
        (("$ sleep 1", "rel     ^[[F$ reload"), "$ ", "reload"),
        (("~ $ cd x", "~/x $ reload"), "~ $ ", "reload"),
        (("out$ reload",), "$ ", "reload"),
        (("$ set -o vi", "(arg: 1) #reload"), "$ ", "set -o vi\nreload"),
    ],
)
def test_line_has_the_text_after_the_prompt(rows: tuple[str, ...], prompt: str | None, expected: str) -> None:
    assert expected in shown_lines(screen(*rows), prompt)


@pytest.mark.parametrize(("line", "expected"), [("$ x", "x"), ("$", ""), ("$x", None), ("# x", None)])
def test_text_follows_the_whole_prompt(line: str, expected: str | None) -> None:
    assert text_after("$ ", line) == expected


def test_line_whose_beginning_may_have_scrolled_away_is_not_read() -> None:
    assert shown_lines(screen("x" * 10, "# reload", cols=10), "$ ") == []


@pytest.mark.parametrize(
    ("rows", "text", "column", "expected"),
    [
        (("$ reload",), "reload", 8, 0),
        (("out", "$ reload"), "reload", 8, 1),
        (("$ reload",), "reload", 7, None),
        (("$  reload",), "reload", 9, None),
        (("# reload",), "reload", 8, None),
        (("$ reload x", "y"), "reload xy", 1, 0),
        (("$ reload", "x"), "reload  x", 1, 0),
        (("$ reload", "x"), "reload   x", 1, None),
        (("$ reload x", ""), "reload x", 0, 0),
        (("$ reload x", "y", "z"), "reload xy", 1, None),
        (("$ \u4e16xxxxxx", "y"), "\u4e16xxxxxxy", 0, None),
    ],
)
def test_row_from_which_on_only_the_typed_text_is_shown(
    rows: tuple[str, ...], text: str, column: int, expected: int | None
) -> None:
    assert first_row_of(screen(*rows, column=column, cols=10), "$ ", text) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("$ echo xx", "y"), {"echo xx y", "echo xx\ny"}),
        (("$ echo x", "y"), {"echo x  y", "echo x\ny"}),
        (("$ echo xxx", "y"), {"echo xxxy"}),
        (("$ \u4e16\u4e16xx", "\u4e16"), {"\u4e16\u4e16xx\n\u4e16", "\u4e16\u4e16xx\u4e16", "\u4e16\u4e16xx  \u4e16"}),
        (("$ \u4e16\u4e16\u4e16xx", "y"), {"\u4e16\u4e16\u4e16xxy"}),
    ],
)
def test_row_that_ends_before_the_last_column_ends_a_line_or_has_blanks(rows: tuple[str, ...], expected: set[str]) -> None:
    assert set(shown_lines(screen(*rows, cols=10), "$ ", top=0)) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("$ echo xx", "> y"), {"echo xx > y", "echo xx\n> y"}),
        (("$ echo xxx", "> y"), {"echo xxx> y"}),
        (("$ echo x", "reload", ""), {"echo x\nreload"}),
        (("$ echo x", "", "reload"), {"echo x\n\nreload"}),
    ],
)
def test_line_is_read_to_its_end_below_the_cursor(rows: tuple[str, ...], expected: set[str]) -> None:
    assert expected <= set(shown_lines(screen(*rows, column=2, cols=10, row=0), "$ ", top=0))


def test_line_of_many_rows_is_read_with_one_row_that_differs() -> None:
    rows = ("$ a", *"bcde")
    readings = shown_lines(screen(*rows, cols=4), "$ ", top=0)
    assert {"a\nb\nc\nd\ne", "a\nb   c\nd\ne", "a b\nc   d   e", "a b   c   d   e"} <= set(readings)


def test_line_of_too_many_short_rows_is_not_read() -> None:
    rows = ("$ a", *"bcdefghijklm")
    assert shown_lines(screen(*rows, cols=4), "$ ", top=0) != []
    assert shown_lines(screen(*rows, "n", cols=4), "$ ", top=0) == []
    assert shown_lines(screen(*rows, "n", cols=4, row=0), "$ ", top=0) == []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("$ : x   RP", "reload"), ": x\nreload"),
        (("$ : x   R", "reload"), ": x\nreload"),
        (("$ re\\   RP", "load"), "re\\\nload"),
        (("$ rel  RP",), "rel  RP"),
        (("$ rel   RP",), "rel"),
        (("$  rel   RP",), "rel"),
    ],
)
def test_line_does_not_continue_behind_a_right_prompt(rows: tuple[str, ...], expected: str) -> None:
    assert expected in shown_lines(screen(*rows, cols=10), "$ ", top=0)


def test_line_is_read_without_the_indentation_of_its_rows() -> None:
    assert "rel\\\noad" in shown_lines(screen("$ rel\\", "  oad"), "$ ", top=0)


@pytest.mark.parametrize(
    ("rows", "column", "expected"),
    [
        (("out", "a@b $ echo x", "> y"), 6, "echo x > y"),
        (("out", "a@b . echo x", "> y"), 6, "echo x > y"),
        (("out", "a@b . rel oad", "~ $ reload"), 6, "reload"),
        (("out", "pppp $ rel", "oad"), 0, "rel  oad"),
    ],
    ids=["after a prompt", "after text that is no prompt", "typed ahead", "after the end of a prompt"],
)
def test_line_is_read_from_where_its_first_key_was_typed(rows: tuple[str, ...], column: int, expected: str) -> None:
    shown = screen(*rows, cols=13 if column else 12)
    assert expected in lines_from(shown, 1, column)
    assert not any("out" in line for line in lines_from(shown, 1, column))


def test_line_that_begins_below_the_cursor_or_has_many_rows_is_not_read() -> None:
    assert lines_from(screen("a", "b", row=0), 1, 0) == []
    assert lines_from(screen(*"abcdefghijklmn", cols=4), 0, 0) == []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("$ rm x", "$ ls"), ["ls", "rm x\n$ ls"]),
        (("$ rm x;   ", "$ ls"), ["ls", "rm x;\n$ ls"]),
        (("$ rm xxxxx", "$ ls"), ["ls", "rm xxxxx$ ls"]),
    ],
)
def test_line_is_read_from_each_row_that_looks_like_the_prompt(rows: tuple[str, ...], expected: list[str]) -> None:
    shown = screen(*rows, cols=10)
    assert set(expected) <= set(shown_lines(shown, "$ ", top=0))
    assert shown_lines(shown, "$ ", top=1) == shown_lines(shown, "$ ") == ["ls"]


@pytest.mark.parametrize(
    ("output", "expected"), [(b"$ ls", 0), (b"$ rm x\r\n$ ls", 1), (b"$ rm xxxxx$ ls", 1), (b"$ a\r\nb\x1b[A", 0)]
)
def test_line_begins_where_the_output_since_its_prompt_does(output: bytes, expected: int) -> None:
    assert rows_above(screen("", cols=10), output) == expected


@pytest.mark.parametrize(
    "piece",
    [b"\n", b"x\x1b[65535b", b"x\x1b[P", b"\x1b[20L\x1b[20M", b"\x1b[2J", b"\x1bc", "世".encode(), "e\u0301".encode()],
    ids=["line feed", "REP", "DCH", "IL and DL", "ED", "RIS", "wide", "combining"],
)
def test_first_row_is_unknown_after_expensive_output(piece: bytes) -> None:
    assert rows_above(screen("$ "), b"out\r\n$ x") == 1
    assert rows_above(screen("$ "), piece * (32 * 1024 // len(piece))) is None


def test_first_row_is_unknown_on_huge_screen() -> None:
    assert rows_above(screen("$ ", cols=65535), b"$ ") is None


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        (("$ true", "<xxxx; $ true"), None),
        (("$ true", "xxxx"), None),
        (("$ true", "$ true xxxxxxxxxxxx>"), 2),
        (("$ true", "$ true xxxxxxxxxxx>"), 2),
        (("$ true", "$ true 世世世世世世>"), 2),
    ],
    ids=["begin", "begin without a mark", "end", "end before the last column", "end after wide characters"],
)
@pytest.mark.parametrize("prompt", ["$ ", None])
def test_line_that_has_scrolled_sideways_is_not_read(rows: tuple[str, ...], column: int | None, prompt: str | None) -> None:
    assert shown_lines(screen(*rows, column=column, cols=20), prompt, top=1) == []


def test_line_after_text_that_was_typed_ahead_is_read_without_the_lines_above() -> None:
    readings = shown_lines(screen("$ cat", "rel^[[F$ reload", cols=20), "$ ", top=1)
    assert "reload" in readings
    assert not any("cat" in reading for reading in readings)


def test_line_at_the_top_of_a_screen_that_was_cleared_is_read() -> None:
    assert shown_lines(screen("$ ls"), "$ ", top=1) == ["ls"]


@pytest.mark.parametrize(
    ("row", "column", "prompt", "expected"),
    [
        ("$ ", 2, "$ ", True),
        ("a$", 2, None, True),
        ("$ reload", 2, "$ ", False),
        ("$ reload", 8, "$ ", False),
        ("$ reload", 4, "$ ", False),
    ],
    ids=["nothing", "nothing after an unknown prompt", "first column", "last column", "between"],
)
def test_line_of_which_nothing_is_shown_may_be_hidden(row: str, column: int, prompt: str | None, expected: bool) -> None:
    shown = screen(row, column=column)
    assert may_be_hidden(shown, shown_lines(shown, prompt)) is expected


@pytest.mark.parametrize("row", ["$ cat <a", "$ cat >", "$ echo '>'"])
def test_line_with_a_redirection_is_read(row: str) -> None:
    assert shown_lines(screen("$ true", row, cols=20), "$ ", top=1) == [row[2:]]


def test_line_of_a_device_that_has_scrolled_sideways_is_not_read() -> None:
    assert shown_lines(screen("R1#$xxx reload", cols=20), "R1#", is_device=True) == []
    assert shown_lines(screen("R1#$xxx reload", cols=20), None, is_device=True) == []
    assert shown_lines(screen("<R1>reload", cols=20), "<R1>", is_device=True) == ["reload"]


@pytest.mark.parametrize("rows", [["$ $ > # echo ^J ^X"] * 13, ["$ " + "# $ > ^J^A" * 8] * 13, ["$ " + "# $ >" * 24] * 24])
def test_line_with_too_many_readings_is_not_read(rows: list[str]) -> None:
    assert shown_lines(screen(*rows, cols=122), "$ ", top=0) == []

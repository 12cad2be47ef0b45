"""Rendering of raw output as the text that a person reads, and the history of widths."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wcwidth import wcwidth

from ptyctl.core.renderer import Renderer, WidthHistory, render, render_before_cursor, render_cursor_line
from ptyctl.core.screen import ScreenModel

MORE = b" --More-- "
ERASE = b"\b" * 10 + b" " * 10 + b"\b" * 10


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"out\r\n$ ls", "$ ls"),
        (b"out\r\n$ 23456789012345\x1b[A\r\r\n\x1b[5C", "$ 23456789012345"),  # fish, at ten columns
        (b"out\r\n$ 23456789012345\x1b[A\r\x1b[2C\x1b[J", "$"),
        (b"one\r\ntwo\x1b[A", "one"),
        (b"", ""),
    ],
)
def test_cursor_line_has_all_rows_of_the_line_that_the_cursor_is_in(raw: bytes, line: str) -> None:
    assert render_cursor_line(raw, 10).rstrip() == line


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"out\n$ ", "$ "),
        (b"$ \x1b[35CRP\x1b[37D", "$ "),
        (b"$ \r\x1b[C", "$"),
        (b"\x1b[4C", "    "),
        (b"0123456789ab\x1b[D", "0123456789a"),
    ],
)
def test_text_before_the_cursor_ends_at_its_column(raw: bytes, text: str) -> None:
    assert render_before_cursor(raw, 40 if b"RP" in raw else 10) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"hi\r\n", "hi\n"),
        (b"hi", "hi"),
        (b"a\tb  \r\nc\r\r\n", "a\tb  \nc\n"),
        (b"10%\r50%\r100%\r\n", "100%\n"),
        (b"longer\rab\r\n", "abnger\n"),
        (b"longer\rab\x1b[K\r\n", "ab\n"),
        (b"abc\b\b\bxyz\r\n", "xyz\n"),
        (b"\x1b[1;31mred\x1b[0m text\r\n", "red text\n"),
        (b"\x1b]0;title\x07x\r\n", "x\n"),
        (b"\x1b]0;a\nb\x07x\r\n", "x\n"),
        (b"one\r\n" + MORE + ERASE + b"two\r\n", "one\ntwo\n"),
        (b"one\r\n" + MORE + b"\x00" + ERASE + b"tw  \r\n", "one\ntw  \n"),
        (b"one\r\n" + MORE + b"\r          \rtwo\r\n", "one\ntwo\n"),
        (b"a\r\n---- More ----\x1b[42D                                          \x1b[42Db\r\n", "a\nb\n"),
        (b"1\r\n2\r\n\x1b[2A\x1b[KA\r\n\x1b[KB\r\n", "A\nB\n"),
        (b"pre\x1b[?1049hfull screen\r\nprogram\x1b[?1049lpost\r\n", "prepost\n"),
        (b"abcdef\x1b[4D\x1b[2Px\r\n", "abxf\n"),
        (b"abc\x1b[3D\x1b[2@xy\r\n", "xyabc\n"),
        (b"abc\x1b[3D\x1b[2X\r\n", "  c\n"),
        (b"ab\x1b[Cc\r\n", "ab c\n"),
        ("日本\b\bx\r\n".encode(), "日x\n"),
        ("e\u0301\r\n\x1b[K".encode(), "e\u0301\n"),
        (b"bad \xff byte\r\n", "bad \ufffd byte\n"),
        (b"old\r\n\x1b[H\x1b[2Jnew\r\n", "old\nnew\n"),
        (b"old\x1b[5;1Hnew\x1b[5;2Hot\x1b[6;1Hmore", "old\nnot\nmore"),
        (b"\x1b[1;1H\x1b[2Ka\x1b[2;1H\x1b[2Kb\x1b[1;1H\x1b[2Kc", "a\nb\nc"),
        (b"one\r\n-- MORE --\x1b[24;1H\x1b[2K\x1b[24;1Htwo\r\n", "one\ntwo\n"),
        (b"ab\x1b7cd\r\n\x1b8X\r\n", "abXd\n"),
        (b"one\x1b7\x1b[24;1Hstatus\x1b8 more\r\nnext\r\n", "one more\nnext\n\nstatus"),
        (b"abc\b\b\x1b[4hX\x1b[4lY\r\n", "aXYc\n"),
        (b"-\x1b[5b\r\n", "------\n"),
        (b"-\r\x1b[5b\r\n", "-\n"),
        (b"ab\x1bDc\x1bEd\x1bMe\r\n", "ab\n ec\nd"),
        (b"ab\vc\fd\r\n", "ab\n  c\n   d\n"),
        (b"a\tb\r\x1b[3CX\r\n", "a  X    b\n"),
        (b"a\tb\x1b[ZX\x1b[2IY\r\n", "a\tX\t\tY\n"),
        ("日本\x1b[3D_\r\n".encode(), " _本\n"),
        ("日\u0301x\r\n".encode(), "日\u0301x\n"),
        ("\U0001f469\u200d\U0001f467x\b\b!\r\n".encode(), " !x\n"),
        ("a\x1b[C\u0301b\r\n".encode(), "a \u0301b\n"),
        (b"\x1b(0lqk\x1b(B q\r\n", "┌─┐ q\n"),
        (b"\x1b(0lqk\r\nx\x1b(Bq\r\n", "┌─┐\n│q\n"),
        (b"\x1b)0\x0elqk\r\nxxx\x0f\r\nxxx\r\n", "┌─┐\n│││\nxxx\n"),
        (b"\x1b7\x1b(0\x1b8q\r\n", "q\n"),
        (b"a\r\n\x1b7b\x1b[A\r\x1b[J\x1b8c", "\nc"),
        (b"out\r\n\x1b[24;1H\x1b[?25h\x1b[24;1H\x1b[2Ksw1# \x1b[24;6H\x1b[?25h", "out\nsw1# "),
    ],
)
def test_render_examples(raw: bytes, text: str) -> None:
    assert render(raw, 80) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b[?7labcdefghijkl\r\nnext", "abcdefghil\nnext"),
        (b"\x1b[?7labcdefghijkl\x1b[?7hm\r\nabcdefghijkl", "abcdefghilm\nabcdefghijkl"),
        ("123456789日x\r\n".encode(), "123456789日x\n"),
        ("123456789日x\x1b[A\rX".encode(), "X23456789日x"),
        ("\x1b[?7l123456789日x\r\n".encode(), "123456789x\n"),
        ("\x1b[?7l1234567890日x\r\n".encode(), "123456789x\n"),
        (b"abcdefghij\t!\r\n", "abcdefghij\t!\n"),
        (b"abcdefghijKL\x1b[A\r\x1b[@_\r\n", "_abcdefghiKL"),
        (b"abcdefghijKL\x1b[A\r\x1b[PX\r\n", "Xcdefghij KL"),
        (b"abcdefghijKL\x1b[A\r\n__\r\nnext", "abcdefghij__\nnext"),
        (b"abcdefghijKL\x1b[A\r\x1b[B__\r\nnext", "abcdefghij__\nnext"),
        (b"abcdefghijKL\x1b[A\r\x1b[Kx\r\ny", "x\nyL"),
        (b"abcdefghijklmnopqrstuv\r\nend\x1b[3A\r\n1\n\r2\r\n3", "abcdefghij1lmnopqrst2v\n3nd"),
        (b"ab\r\ncdefgh\x1b[A\r0123456789XY", "0123456789XYefgh"),
        ("ab\r\ncdefgh\x1b[A\r012345678日".encode(), "012345678日efgh"),
        ("123456789日x\r\n\x1b[2A\rX\x1b[B_".encode(), "X23456789  _x\n"),
    ],
)
def test_render_at_end_of_row_of_ten_columns(raw: bytes, text: str) -> None:
    assert render(raw, 10) == text


FEATURES = st.sampled_from(
    [
        *(b"a", b"bcd", "日".encode(), "e\u0301".encode(), "\u0301".encode(), "\U0001f469\u200d".encode(), b"q~", b" "),
        *(b"\r\n", b"\r", b"\b", b"\t", b"\v", b"\f", b"\x0e", b"\x0f", b"\x1b(0", b"\x1b(B", b"\x1b)0"),
        *(b"\x1b7", b"\x1b8", b"\x1b[s", b"\x1b[u", b"\x1b[4h", b"\x1b[4l", b"\x1b[3b", b"\x1bD", b"\x1bE"),
        *(b"\x1b[?7l", b"\x1b[?7h", b"\x1b[C", b"\x1b[3D", b"\x1b[2G", b"\x1b[A", b"\x1b[K", b"\x1b[1K", b"\x1b[2X"),
        *(b"\x1b[m", b"\x1b[6n", b"\x00", b"\x07", b"    ", "é─\ufffd".encode()),
        *(b"\x1bH", b"\x1b[g", b"\x1b[3g", b"\x1b[5G\x1bH", b"\x1b[2I", b"\x1b[2Z"),
        *(b"\x1b[2P", b"\x1b[2@", b"\x1b[J", b"\x1b[I", b"\x1b[Z", b"\x1b[4`", b"\x1b[2a", b"\x1b[?25l", b"\x1bM"),
    ]
)


def columns_of(line: str, cols: int) -> set[str]:
    """Expand tabs by columns, and drop combining marks at the start, as the screen does; plain lines keep both.

    After a ZWJ a character may have joined, or was there before: the text does not show which, so both are returned.
    """
    rows = {("", 0)}
    for character in line:
        size, following = max(wcwidth(character), 0), set()
        for shown, column in rows:
            if character == "\t":
                blanks = max(min(8 - column % 8, cols - 1 - column), 0)
                following.add((shown + " " * blanks, column + blanks))
            elif column or size:
                following.add((shown + character, column + size))
                if shown.endswith("\u200d") and not character.isascii():
                    following.add((shown + character, column))
            else:
                following.add((shown, column))
        rows = following
    return {shown.rstrip(" ") for shown, _ in rows}


def assert_same_rows(pieces: list[bytes], cols: int, prefix: bytes = b"") -> None:
    """Check that the text of the renderer equals the rows of the screen."""
    above = b"\n" * 40 if b"\x1bM" in pieces else b""  # RI does not scroll
    model, data = ScreenModel(cols, 90), above + prefix + b"\x1b7" + b"".join(pieces)
    model.feed(data)
    lines, rows = render(data, cols).split("\n"), model.snapshot().rows
    assert not any(rows[len(lines) :])
    for line, row in zip(lines, rows, strict=False):
        assert row in columns_of(line, cols)


@given(st.lists(FEATURES.filter(lambda piece: piece != b"\x1b[3g"), max_size=40))  # with a tab stop ahead, no line wraps
def test_text_equals_the_rows_of_the_screen(pieces: list[bytes]) -> None:
    assert_same_rows(pieces, 500)


#: As `tabs -4` and `tabs 5,9,20` of ncurses print it.
TABS_4 = b"\r\x1b[3g" + b"    \x1bH" * 19 + b"\r"
TABS_LIST = b"\r\x1b[3g    \x1bH    \x1bH           \x1bH\r"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (TABS_4 + b"a\tb\tc\r\n", "a   b   c"),
        (TABS_LIST + b"a\tb\tc\td\te\r\n", "a   b   c          d" + " " * 59 + "e"),
        (TABS_LIST + b"a\tb\x1bcx\ty\r\n", "a   bx  y"),
        (b"\x1b[3g\x1b[;9H\x1bH\x1b[;17H\x1bH\x1b[;1Ha\tb\tc\r\n", "a\tb\tc"),
        (b"\x1b[9G\x1b[g\ra\tb\r\n", "a               b"),
        (b"\x1b[9G\x1b[g\x1bH\ra\tb\r\n", "a\tb"),
        (b"\x1b[5G\x1bH\ra\x1b[3Ib\x1b[2ZX\r\n", "a       X       b"),
    ],
)
def test_tab_stops_are_those_of_the_output(raw: bytes, text: str) -> None:
    assert render(raw, 80).split("\n")[0].rstrip(" ") == text


@pytest.mark.parametrize("cols", [9, 10, 17, 80])
@pytest.mark.parametrize("then", [b"\x1b[Z", b"\x1b[2Z", b"\t", b"\x1b[g\r\t", b"\x1bH\r\t"])
def test_tabs_in_the_last_column_are_those_of_the_screen(cols: int, then: bytes) -> None:
    assert_same_rows([b"x" * cols, then, b"y"], cols, b"\x1b[?7l")


@given(
    st.lists(st.tuples(st.lists(FEATURES, max_size=10), st.integers(10, 60)), max_size=4),
)
def test_tab_stops_after_a_resize_are_those_of_the_screen(parts: list[tuple[list[bytes], int]]) -> None:
    model, data, resizes = ScreenModel(40, 3), b"\x1b[?7l\x1b[3g\x1b[7G\x1bH", list[tuple[int, int]]()
    model.feed(data)
    for pieces, cols in parts:
        added = b"".join(piece for piece in pieces if piece[-1:] in b"HgGIZ\t\r") + b"\r"
        model.feed(added)
        model.resize(cols, 3)
        data += added
        resizes.append((len(data), cols))
    model.feed(b"\r\ta\tb\tc")
    cols = parts[-1][1] if parts else 40
    assert model.snapshot().rows[0] in columns_of(render(data + b"\r\ta\tb\tc", 40, resizes).split("\n")[0], cols)


#: Output whose lines wrap, and motions between their rows.
WRAPPING = st.sampled_from(
    [
        *(b"ab", b"123456789", b"x" * 25, b"plain text that wraps\r\n", "日".encode(), "é─日".encode(), "e\u0301".encode()),
        *(b"\r\n", b"\r\n", b"\r", b"\b", b"\v", b"\x1bD", b"\x1bE", b"\x1bM", b"\x1b[C", b"\x1b[3D", b"\x1b[4G", b"\x1b[2`"),
        *(b"\x1b[A", b"\x1b[2A", b"\x1b[3A", b"\x1b[3b", b"  ", b"_ _"),
        *(
            b"\x1b[K",
            b"\x1b[1K",
            b"\x1b[2K",
            b"\x1b[2X",
            b"\x1b[2P",
            b"\x1b[2@",
            b"\x1b[4h",
            b"\x1b[4l",
            b"\x1b[?7l",
            b"\x1b[?7h",
        ),
    ]
)


def rows_of(line: str, cols: int) -> list[str]:
    """Return the rows that a line takes on a terminal."""
    rows, column = [""], 0
    for character in line:
        size = max(wcwidth(character), 0)
        if column + size > cols:
            rows, column = [*rows, ""], 0
        rows[-1] += character
        column += size
    return [row.rstrip(" ") for row in rows]


#: CUD ends at the last row of the output, as at the bottom of the screen. A saved cursor moves with the text if that scrolls.
AT_THE_BOTTOM = WRAPPING | st.sampled_from([b"\x1b[B", b"\x1b[2B"])
AT_THE_TOP = WRAPPING | st.sampled_from([b"\x1b7", b"\x1b8"])


@example((b"\n" * 150, [b"123456789", b"x", b"\v", b"ab"]))
@example((b"\n" * 150, [b"123456789", b"x", b"\x1bD", b"\r", b"ab"]))
@example((b"\n" * 150, [b"123456789", b"x", b"\x1b[B", "日".encode()]))
@given(
    st.tuples(st.just(b"\n" * 150), st.lists(AT_THE_BOTTOM, max_size=40))
    | st.tuples(st.just(b"\n" * 60 + b"\x1b7"), st.lists(AT_THE_TOP, max_size=20))
)
def test_text_of_wrapped_lines_equals_the_rows_of_the_screen(output: tuple[bytes, list[bytes]]) -> None:
    """Blank rows at the end of a wrapped line are not part of its text."""
    cols, data = 10, output[0] + b"".join(output[1])
    model = ScreenModel(cols, 150)
    model.feed(data)
    shown = [*model.scrollback(1000), *model.snapshot().rows]
    rendered = [row for line in render(data, cols).split("\n") for row in rows_of(line, cols)]
    assert [row for row in rendered if row] == [row for row in shown if row]


def test_text_that_wraps_over_lines_joins_them_up_to_64_rows() -> None:
    above = b"\x1b[256A\rabcdefghijkl"
    assert render(b"\n" + b"y" * 630 + above, 10) == "abcdefghijkl" + "y" * 628
    assert render(b"\n" + b"y" * 640 + above, 10) == "abcdefghij\nkl" + "y" * 638


@given(st.lists(FEATURES.filter(lambda piece: piece != b"\x1b[?7h"), max_size=40))
@example([b"\x1b[I", b" ", b"\x1b[I", b" ", b"aaaa", b" ", b"\x1b[K", "\u0301".encode()])
def test_text_without_autowrap_equals_the_rows_of_a_narrow_screen(pieces: list[bytes]) -> None:
    assert_same_rows(pieces, 20, b"\x1b[?7l")


@pytest.mark.parametrize("erasing", [b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[J", b"\x1b[X", b"\x1b[P", b"\x1b[@"])
def test_erasing_in_the_last_column_clears_the_pending_wrap(erasing: bytes) -> None:
    assert_same_rows([b"x" * 20, erasing, b"y"], 20)


@pytest.mark.parametrize(
    ("raw", "text"), [(b"\x1b[\x1b[mAx", "Ax"), (b"a\x1b[\x1b]0;t\x07Kb", "aKb"), (b"x\x1b[m\x1b[3by", "xy")]
)
def test_render_removed_sequence_changes_nothing_around_it(raw: bytes, text: str) -> None:
    assert render(raw, 80) == text
    for cut in range(len(raw)):
        renderer = Renderer(80)
        renderer.feed(raw[:cut])
        renderer.feed(raw[cut:])
        assert renderer.finish() == text


def test_render_alternate_includes_alternate_screen() -> None:
    less = b"pre\r\n\x1b[?1049h\x1b[22;0;0t\x1b[?1h\x1b=\rone\r\n:\x1b[K\r\x1b[Ktwo\r\n\x1b[7m(END)\x1b[27m\x1b[K"
    assert render(less + b"\r\x1b[K\x1b[?1l\x1b>\x1b[?1049lpost", 80, alternate=True) == "pre\none\ntwo\npost"


def test_render_wrapped_line_is_joined_and_cr_stays_in_row() -> None:
    assert render(b"x" * 25 + b"\r\n", 10) == "x" * 25 + "\n"
    assert render(b"x" * 25 + b"\b" * 9 + b"yy\r\n", 10) == "x" * 20 + "yyxxx\n"
    assert render(b"0123456789ab\rXY\x1b[A_\r\n", 10) == "01_3456789XY"
    assert render(b"0123456789\rX\r\n", 10) == "X123456789\n"


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"]) | st.just("\t"), max_size=50), st.integers(1, 200))
def test_render_plain_lines_unchanged(line: str, width: int) -> None:
    long = line * 100
    assert render(f"{line}\r\n{long}\r\n{long}".encode(), width) == f"{line}\n{long}\n{long}"


@given(
    st.lists(st.sampled_from([b"\x1b[", b"A", b"\r", b"\n", b"\b", b"K", b"3", b"x", b"\t", b"\x1b[2J", b"\xff"]), max_size=40)
)
def test_render_any_input_does_not_raise(pieces: list[bytes]) -> None:
    render(b"".join(pieces), 7)


@given(st.binary(max_size=200))
def test_render_output_has_no_controls(raw: bytes) -> None:
    assert not any(character < " " and character not in "\n\t" for character in render(raw, 20))


CHARACTERS = [
    "a",
    "bc ",
    " ",
    "\t",
    "\u6f22",
    "ab\u6f22\u5b57",
    "\u2e3b",
    "\x85",
    "\xe9",
    "e\u0301",
    "\xe9\u0301\u0302",
    "\u0301",
]
JOINING = ["\u200d", "\U0001f468", "\u200d\U0001f469", "\u2764\ufe0f", "\u05b0", "\U0001f1e6"]


@given(st.lists(st.sampled_from(CHARACTERS + JOINING), max_size=14).map("".join), st.integers(1, 20), st.integers(0, 20))
def test_line_without_controls_is_overwritten_like_a_drawn_one(line: str, width: int, column: int) -> None:
    """A line with NUL, which draws nothing, is drawn at once; a plain line is drawn only when it changes."""
    overwritten = f"\r\n\x1b[A\x1b[{column}C!".encode()
    assert render(line.encode() + overwritten, width) == render(b"\0" + line.encode() + overwritten, width)


@given(st.lists(st.sampled_from(["", "word", "a b ", "\ttab"]), max_size=30), st.sets(st.integers(0, 30)))
def test_render_erased_pager_leaves_no_text(lines: list[str], stops: set[int]) -> None:
    paged = b"".join((MORE + ERASE if number in stops else b"") + line.encode() + b"\r\n" for number, line in enumerate(lines))
    assert render(paged, 80) == "".join(line + "\n" for line in lines)


def test_render_applies_width_of_each_part() -> None:
    line = b"x" * 15 + b"\rAB\r\n"
    narrow, wide = "x" * 10 + "AB" + "x" * 3 + "\n", "AB" + "x" * 13 + "\n"
    assert render(line, 10) == narrow
    assert render(line + line, 10, [(len(line), 20)]) == narrow + wide
    assert render(line + line, 20, [(len(line), 10)]) == wide + narrow
    assert render(line, 10, [(12, 20)]) == wide  # within a line: it is wrapped again
    assert render(b"x" * 10 + b"yz", 10, [(10, 20)]) == "x" * 10 + "yz"
    assert render(b"0123456789\rX", 10, [(10, 20)]) == "X123456789"


TEXT = [b"a", b"bc ", b"\r", b"\n", b"\r\n", b"\b", b"\t", "é€日".encode()]
SEQUENCES = [b"\x1b[1;31m", b"\x1b[K", b"\x1b[2D", b"\x1b[A", b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b(B"]
STRINGS = [b"\x1b]0;t\x07", b"\x1b]0;t\x1b\\", b"\x1bPq\x1b\\"]
some = st.lists(st.sampled_from(TEXT + SEQUENCES + STRINGS), max_size=30).map(b"".join)


@given(some, st.lists(st.integers(0, 120), max_size=5), st.integers(1, 40))
@example(b"a\t\x1b[1;31m", [9], 1)  # a sequence at the end must not decide whether the line is plain
@example(b"a\t\x1b[m\x1b[6n", [5], 1)
@example(b"a\x1b[3b", [1], 9)
@example(b"a\x1b[m\x1b[3b", [4], 9)
def test_render_resize_to_same_width_changes_nothing(data: bytes, places: list[int], width: int) -> None:
    resizes = [(place % (len(data) + 1), width) for place in places]
    assert render(data, width, sorted(resizes)) == render(data, width)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 300)), max_size=6), st.integers(0, 20), st.integers(0, 20))
def test_width_history_byte_has_width_of_last_resize(resizes: list[tuple[int, int]], begin: int, size: int) -> None:
    resizes.sort(key=lambda resize: resize[0])
    widths, end = WidthHistory(80, resizes), begin + size
    columns, changes = widths.width_at(begin), dict(widths.changes_between(begin, end))
    for offset in range(begin, end):
        columns = changes.get(offset - begin, columns)
        assert columns == next((width for place, width in reversed(resizes) if place <= offset), 80)


PIECES = [
    *(b"\x1b[", b"A", b"\r", b"\n", b"\b", b"K", b"3", b"x", b"\t", b"\x1b[2J", b"\xff", b"  ", "\u65e5".encode()),
    *(b"\x1b[2A", b"\x1b[5;1H", b"\x1b]0;a\nb", b"\x07", b"\x1b\\", b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[31m", b"plain\r\n"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), st.sets(st.integers(0, 200)), st.integers(2, 30))
def test_text_rendered_in_pieces_is_that_of_the_whole(data: bytes, cuts: set[int], width: int) -> None:
    renderer, text = Renderer(width), ""
    ends = [*sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for begin, end in zip([0, *ends], ends, strict=False):
        renderer.feed(data[begin:end])
        text += renderer.take()
    assert text + renderer.finish() == render(data, width)


@pytest.mark.parametrize(
    "line", [b"plain\r\n", b"10%\r20%\r\n", b"\x1b[2A\x1b[K\x1b[31mred\r\n\n\n", b"long " * 50 + b"\b!\r\n"]
)
def test_taken_text_of_many_lines_is_that_of_the_whole(line: bytes) -> None:
    renderer, text = Renderer(40), ""
    for _ in range(40):
        renderer.feed(line * 50)
        text += renderer.take()
    assert len(text) > 20 * len(line)
    assert text + renderer.finish() == render(line * 2000, 40)


@pytest.mark.parametrize("piece", [b"no line feed ", b"\b", b"\r12%", b"\x1b[C\x1b[31m+", "\u65e5".encode(), b"\x1bPq#0"])
def test_line_of_any_length_is_rendered_in_bounded_memory(piece: bytes) -> None:
    renderer, size = Renderer(80), 0
    data = piece * (40_000 // len(piece))
    for _ in range(15):
        renderer.feed(data)
        size += len(renderer.take())
    assert len(renderer.finish()) < 200_000
    if piece == b"no line feed ":
        assert size > 500_000


def test_unchanging_lines_exclude_the_current_line_and_redrawn_ones() -> None:
    renderer = Renderer(80)
    renderer.feed(b"done\r\na 10%\r\nb 10%\r\n\x1b[2Aa 20%\r\nb 20%\r\n")
    assert renderer.unchanging_lines() == "done\n"
    renderer = Renderer(80)
    renderer.feed(b"done\r\nmore 10%")
    assert renderer.unchanging_lines() == "done\n"
    renderer.feed(b"\rmore 20%")
    assert renderer.finish() == "done\nmore 20%"
    renderer = Renderer(80)
    renderer.feed(b"done\r\na 10%\r\nb 10%\r\n\x1b[2Aa 2")
    assert renderer.unchanging_lines() == "done\n"


@pytest.mark.parametrize(
    ("begin", "body", "end"), [("P", "x", "\x1b\\"), ("]", "x", "\x07"), ("[", "1", "m"), ("[", "1", "\x18"), ("(", " ", "B")]
)
def test_long_sequence_in_small_pieces_is_rendered_in_linear_time(begin: str, body: str, end: str) -> None:
    renderer, data = Renderer(80), f"one\r\ntwo\x1b{begin}{body * 500_000}{end}seen".encode()
    for at in range(0, len(data), 64):
        renderer.feed(data[at : at + 64])
    assert renderer.finish().replace("\x18", "") == "one\ntwoseen"


def test_resize_within_a_long_sequence_applies_before_it() -> None:
    renderer = Renderer(80)
    for piece in (b"12345678\x1b]0;", b"title", b"end\x1b", b"\\9\x1b[A_"):
        renderer.feed(piece)
        renderer.resize(4)
    assert renderer.finish() == render(b"12345678\x1b]0;titleend\x1b\\9\x1b[A_", 4)

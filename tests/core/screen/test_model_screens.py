"""Main and alternate screen, scrollback, titles, modes, resizes, copies."""

from __future__ import annotations

import pytest

from ptyctl.core.screen import ScreenModel, Scrollback, StyledRun, parser


def drawn(data: bytes, cols: int = 10, rows: int = 3, scrollback: int = 1000) -> ScreenModel:
    model = ScreenModel(cols, rows, scrollback)
    model.feed(data)
    return model


@pytest.mark.parametrize("mode", [47, 1047, 1049])
def test_leave_alternate_screen_restores_main_screen(mode: int) -> None:
    """xterm, DEC private modes 47, 1047 and 1049; only the last restores the cursor."""
    model = drawn(b"main\x1b[?%dh" % mode)
    assert (model.snapshot().rows, model.snapshot().alt_screen) == (("", "", ""), True)
    model.feed(b"\x1b[3;3Hother\x1b[?%dl" % mode)
    snapshot = model.snapshot()
    assert (snapshot.rows, snapshot.alt_screen) == (("main", "", ""), False)
    assert snapshot.cursor == ((0, 4) if mode == 1049 else (2, 7))


def test_alternate_screen_starts_blank_without_scrollback() -> None:
    model = drawn(b"\x1b[?1049h1\r\n2\r\n3\r\n4\x1b[?1049l\x1b[?1049h")
    assert model.snapshot().rows == ("", "", "")
    assert model.scrollback(10) == []


def test_public_mode_number_does_not_set_private_mode() -> None:
    """pyte shifts private numbers by five bits: 800 is 25, 33568 is 1049."""
    snapshot = drawn(b"\x1b[800l\x1b[33568hx").snapshot()
    assert (snapshot.cursor_visible, snapshot.alt_screen) == (True, False)


def test_mode_1048_saves_and_restores_cursor() -> None:
    assert drawn(b"ab\x1b[?1048h\x1b[3Hx\x1b[?1048lc").snapshot().rows == ("abc", "", "x")


def test_decsc_saves_separate_cursor_for_each_screen() -> None:
    model = drawn(b"ab\x1b7\x1b[?47h\x1b[3;3H\x1b7\x1b[H\x1b8x\x1b[?47l\x1b8y")
    assert model.snapshot().rows == ("aby", "", "")


def test_scrollback_contains_lines_scrolled_off() -> None:
    model = drawn(b"1\r\n2  \r\n3\r\n4\r\n5", scrollback=10)
    assert model.scrollback(10) == ["1", "2"]
    assert model.scrollback(1) == ["2"]
    assert model.scrollback(0) == []
    model.feed(b"\x1b[S")
    assert model.scrollback(1) == ["3"]
    model.feed(b"\x1b[2;3r\x1b[3H\n\n")
    assert model.scrollback(10) == ["1", "2", "3"]


def test_scrollback_range_keeps_line_numbers_and_attributes() -> None:
    model = drawn(b"1\r\n\x1b[1;31m2\x1b[m  \xe6\x97\xa5\x1b[44mx\r\n\x1b[m3\r\n4\r\n5\r\n6", scrollback=2)
    assert model.scrollback_range(None, 1) == Scrollback(2, ("3",), 1, 3)
    found = model.scrollback_range(0, 1, attributes=True)
    assert (found.first, found.lines, found.oldest, found.end) == (1, ("2  日x",), 1, 3)
    assert found.attributes == ((StyledRun(0, 1, fg="red", bold=True), StyledRun(5, 6, bg="blue")),)
    model.feed(b"\r\n" * 40)
    assert model.scrollback_range(43, 9) == Scrollback(43, (), 41, 43)
    model.feed(b"\x1b[3J\r\nx")
    assert model.scrollback_range(None, 9) == Scrollback(43, ("",), 43, 44)


def test_scrollback_range_keeps_numbers_ascending_when_text_is_skipped() -> None:
    model = drawn(b"", cols=20, rows=3, scrollback=5)
    end = 0
    for _ in range(3):
        model.feed(b"some text\r\n" * 50_000)
        found = model.scrollback_range(None, 5)
        assert (found.oldest, len(found.lines)) == (found.end - 5, 5)
        assert found.oldest >= end
        end = found.end


def test_scrollback_is_limited_and_cleared_by_ed_3() -> None:
    model = drawn(b"\r\n".join(b"%d" % number for number in range(100)), scrollback=5)
    assert model.scrollback(100) == ["92", "93", "94", "95", "96"]
    model.feed(b"\x1b[3J")
    assert model.scrollback(100) == []


def test_title_set_pushed_and_popped() -> None:
    """xterm, OSC 0 and 2, and XTWINOPS 22 and 23."""
    model = drawn(b"\x1b]0;one\x07\x1b]1;icon\x07\x1b[22;0t\x1b]2;t\xc3\xbco\n\x1b\\")
    assert model.snapshot().title == "tüo"
    model.feed(b"\x1b[23;0t\x1b[23;0t\x1bc")
    assert model.snapshot().title == "one"


def test_cancelled_title_is_ignored() -> None:
    assert drawn(b"\x1b]2;no\x18\x1b]2;no\x1b[mx").snapshot().title == ""


@pytest.mark.parametrize("size", [1, 1000, 4096, 4097, 100_000])
def test_overlong_sequence_is_skipped(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if size == 1:  # each byte costs as much as a whole held-back sequence
        monkeypatch.setattr(parser, "MAX_SEQUENCE", 256)
    strings = b"".join(b"\x1b%c2;%b\x1b\\" % (introducer, b"x" * 6_000) for introducer in b"]P_^X")
    data = strings + b"a\x1b[" + b"1;" * 5_000 + b"1Hb\x1b[0;" + b"0;" * 5_000 + b"1mc\x1b " + b" " * 5_000 + b"cd"
    model = ScreenModel(10, 3)
    for begin in range(0, len(data), size):
        model.feed(data[begin : begin + size])
    snapshot = model.snapshot(attributes=True)
    assert (snapshot.rows[0], snapshot.title, snapshot.attributes) == ("abcd", "", ((), (), ()))


def test_dectcem_hides_and_shows_cursor() -> None:
    assert not drawn(b"\x1b[?25l").snapshot().cursor_visible
    assert drawn(b"\x1b[?25l\x1b[?25h").snapshot().cursor_visible


@pytest.mark.parametrize(
    ("data", "size", "rows", "cursor", "scrollback"),
    [
        (b"1\r\n2\r\n3", (10, 2), ("2", "3"), (1, 1), ["1"]),
        (b"1\r\n2\r\n3\x1b[H", (10, 2), ("1", "2"), (0, 0), []),
        (b"1\r\n2\r\n3\x1b[2H", (10, 1), ("2",), (0, 0), ["1"]),
        (b"1\r\n2", (10, 5), ("1", "2", "", "", ""), (1, 1), []),
        (b"0123456789", (5, 3), ("01234", "", ""), (0, 4), []),
        (b"0123\xe6\x97\xa5", (5, 3), ("0123", "", ""), (0, 4), []),
        (b"abc", (20, 3), ("abc", "", ""), (0, 3), []),
        (b"\x1b[?6h\x1b[2;3r\n\n", (10, 1), ("",), (0, 0), ["", ""]),
    ],
)
def test_resize_without_reflow(
    data: bytes, size: tuple[int, int], rows: tuple[str, ...], cursor: tuple[int, int], scrollback: list[str]
) -> None:
    model = drawn(data)
    model.resize(*size)
    snapshot = model.snapshot()
    assert (snapshot.rows, snapshot.cursor, (snapshot.cols, snapshot.rows_count)) == (rows, cursor, size)
    assert model.scrollback(10) == scrollback


def test_resize_on_alternate_screen_keeps_main_screen() -> None:
    model = drawn(b"1\r\n2\r\n3\x1b[?1049h")
    model.resize(5, 2)
    model.feed(b"\x1b[?1049lx")
    assert model.snapshot().rows == ("2", "3x")
    assert model.scrollback(5) == ["1"]


def test_resize_clears_margins_and_adds_tab_stops() -> None:
    model = drawn(b"\x1b[2;3r")
    model.resize(30, 4)
    model.feed(b"\t\t\tx\x1b[4H\n")
    assert model.snapshot().rows[0] == ""
    assert model.scrollback(1) == [" " * 24 + "x"]


def test_copy_is_independent() -> None:
    model = drawn(b"1\r\n2\x1b]2;t\x07\x1b[?1049hx\x1b[1")
    before, other = model.snapshot(), model.copy()
    other.feed(b"m\x1b[6n\x1b[2J\x1b]2;u\x07\x1b[?1049l\r\n\n\n\n\x1b[4h\x1b[3g")
    other.resize(4, 2)
    assert (model.snapshot(), model.responses, model.scrollback(9)) == (before, [], [])
    model.feed(b"my")
    assert model.snapshot().rows[1] == " xy"
    assert other.snapshot().title == "u"


def test_snapshot_of_new_model_is_empty() -> None:
    snapshot = ScreenModel(4, 2).snapshot(attributes=True)
    assert (snapshot.rows, snapshot.cursor, snapshot.attributes) == (("", ""), (0, 0), ((), ()))

"""ScreenView: a terminal shows the whole screen if it fits, otherwise the part around the cursor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.screen import ScreenModel, ScreenView

PIECES = st.one_of(
    st.sampled_from(["a", "hello ", "x" * 30, "é", "日本", "e\u0301", "\u2764\ufe0f"]).map(str.encode),
    st.sampled_from(
        [b"\r\n", b"\r", b"\t", b"\b",
         b"\x1b[1;31m", b"\x1b[44m", b"\x1b[m", b"\x1b[38;5;208m", b"\x1b[2J", b"\x1b[K", b"\x1b[H", b"\x1b[2;3H",
         b"\x1b[99;99H",         b"\x1b[?25l", b"\x1b[?25h", b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[2;3r", b"\x1b[r", b"\x1b[L",
         b"\x1b[P", b"\x1bM",
         b"\x1b[?6h", b"\x1b[?7l", b"\x1b]2;title\x07", b"\x1b[?5h", b"\x1b[?5l"]
    ),
)  # fmt: skip
SIZES = st.tuples(st.sampled_from([1, 2, 7, 20]), st.sampled_from([1, 3, 6]))


def shown(terminal: ScreenModel) -> tuple[object, ...]:
    snapshot = terminal.snapshot(attributes=True)
    return snapshot.rows, snapshot.attributes, snapshot.cursor_visible, snapshot.title


@given(st.lists(st.lists(PIECES, max_size=12), min_size=1, max_size=4), SIZES)
def test_view_large_terminal_shows_whole_screen(bursts: list[list[bytes]], size: tuple[int, int]) -> None:
    far, terminal, view = ScreenModel(*size), ScreenModel(*size), ScreenView()
    for burst in bursts:
        far.feed(b"".join(burst))
        terminal.feed(view.draw(far.frame(*size)))
        assert shown(terminal) == shown(far)
        if far.snapshot().cursor_visible:
            assert terminal.snapshot().cursor == far.snapshot().cursor


@given(st.lists(PIECES, max_size=30), SIZES, SIZES)
def test_view_other_size_shows_part_with_cursor(pieces: list[bytes], size: tuple[int, int], other: tuple[int, int]) -> None:
    far, terminal = ScreenModel(*size), ScreenModel(*other)
    far.feed(b"".join([*pieces, b"\x1b[?25h"]))
    frame = far.frame(*other)
    terminal.feed(ScreenView().draw(frame))
    snapshot = far.snapshot()
    top, left = max(0, snapshot.cursor[0] - other[1] + 1), max(0, snapshot.cursor[1] - other[0] + 1)
    assert terminal.snapshot().cursor == (snapshot.cursor[0] - top, snapshot.cursor[1] - left)
    if left == 0 and all(len(row) <= other[0] and row.isascii() for row in snapshot.rows):
        below = ("",) * (other[1] - size[1])
        assert terminal.snapshot().rows == snapshot.rows[top : top + other[1]] + below


def test_view_draws_changed_rows_only() -> None:
    far, view = ScreenModel(20, 3), ScreenView()
    far.feed(b"one\r\ntwo\r\nthree")
    view.draw(far.frame(20, 3))
    far.feed(b"!")
    drawn = view.draw(far.frame(20, 3))
    assert b"three!" in drawn
    assert b"one" not in drawn
    view.forget()
    assert b"one" in view.draw(far.frame(20, 3))


def test_view_forwards_no_bytes_of_far_end() -> None:
    far = ScreenModel(40, 3)
    far.feed(b"\x1b]52;c;aGk=\x07\x1b[21t\x05\x1b[6n\x1bP$qm\x1b\\\x1b]2;a\ttitle\x07text")
    drawn = ScreenView().draw(far.frame(40, 3))
    assert not any(part in drawn for part in (b"\x1b]52", b"21t", b"\x05", b"6n", b"$q", b"\t"))
    assert b"\x1b]2;atitle\x1b\\" in drawn


def test_view_input_modes_set_only_with_input_and_reset_on_leave() -> None:
    far, view = ScreenModel(40, 3), ScreenView()
    far.feed(b"\x1b[?1h\x1b[?1002h\x1b[?1006h\x1b[?2004h\x1b[3 q")
    assert b"?1002h" not in view.draw(far.frame(40, 3))
    drawn = view.draw(far.frame(40, 3), takes_input=True)
    assert all(mode in drawn for mode in (b"\x1b[?1h", b"\x1b[?1002h", b"\x1b[?1006h", b"\x1b[?2004h"))
    left = view.leave()
    assert all(mode in left for mode in (b"\x1b[?1l", b"\x1b[?1002l", b"\x1b[?1006l", b"\x1b[?2004l", b"\x1b[ q", b"\x1b[?25h"))


def test_view_status_takes_separate_row() -> None:
    far, terminal, view = ScreenModel(20, 2), ScreenModel(20, 3), ScreenView()
    far.feed(b"one\r\ntwo\x1b[r\x1b[2J\x1b[99;1Hlast")
    terminal.feed(view.draw(far.frame(20, 2), "\x1b[7mstatus\x1b[m\x1b[K"))
    assert terminal.snapshot().rows == ("", "last", "status")

"""Random text and control sequences draw the same cells in the screen model and in tmux.

The generated data avoids cases where tmux differs from xterm and the VT; there the model follows xterm (`DIFFERENT`).
CHT, HPR, VPR and DECSTR are not generated: tmux 3.3 does not implement them.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.tmux.cells import differences, from_snapshot
from fixtures.tmux.server import TmuxServer
from ptyctl.core.screen import ScreenModel, ScreenSnapshot

COLS, ROWS = 20, 6


def csi(final: str, *numbers: int | str) -> str:
    return f"\x1b[{';'.join(map(str, numbers))}{final}"


def in_order(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map("".join)


def sequences(finals: str, counts: st.SearchStrategy[int | str]) -> st.SearchStrategy[str]:
    return st.builds(csi, st.sampled_from(finals), counts)


counts = st.sampled_from(["", 0, 1, 2, 3, 7, 30, 99999])
few = st.sampled_from(["", 0, 1, 2, 3])
rows, cols = st.integers(0, ROWS + 2), st.integers(0, COLS + 2)
words = st.text("abc defgh", min_size=1, max_size=9)
lines = st.text("abc defgh", min_size=15, max_size=50)
colours = st.sampled_from(["44", "48;5;200", "48;2;1;2;3", "48:2::1:2:3", "100", "48:5:7", "7", "1;7;41"])
letters = st.sampled_from(
    ["0", "", "1", "2", "3", "4", "5", "7", "8", "9", "21", "22", "24", "27", "1;31", "38;5;208", "38:2::9:8:7", "4:3"]
)

moves = st.one_of(
    st.builds(csi, st.just("H"), rows, cols),
    sequences("ABCDEFGd`", counts),
    st.sampled_from(
        ["\r", "\n", "\n\n\n", "\r\n", "\t", "\v", "\f", "\x1bD", "\x1bE", "\x1bM", "\x1b7", "\x1b8", csi("s"), csi("u")]
    ),
    st.sampled_from(["\x1bH", csi("g"), csi("g", 3)]),
    sequences("Z", few),
)
pens = st.builds(csi, st.just("m"), letters)
#: Modes that affect later data: wrapping, origin, character sets, alternate screen.
modes = st.sampled_from(
    [
        "\r\x1b[?7l",
        "\x1b[?7h",
        "\x1b[?6h",
        "\x1b[?6l",
        "\x1b(0",
        "\x1b(B",
        "\x1b)0",
        "\x0e",
        "\x0f",
        "\x1b[?1047l\x1bc",
        "\x1b#8",
    ]
    + [f"\x1b[?{mode}{how}" for mode in (47, 1047) for how in "hl"]
    + ["\x1b[?1049h", "\x1b[?25l"]
)
margins = in_order("\x1b[?6l", st.builds(csi, st.just("r"), st.integers(1, ROWS), st.integers(1, ROWS)))
#: Not the first two columns, which the output of tmux does not always distinguish, and not where text reaches the last column.
inside = st.builds(csi, st.just("H"), rows, st.integers(3, COLS - 5))
changes = in_order(
    inside, st.one_of(sequences("@PX", few), sequences("JK", st.integers(0, 2)), st.just("ab\b"), st.just(csi("J", 3)))
)
coloured = in_order(
    inside, st.builds(csi, st.just("m"), colours), st.one_of(st.just("abc"), changes, st.just("\n")), csi("m", "27;49")
)
inserted = in_order(inside, "\x1b[4h", st.text("xyz", max_size=4), "\x1b[4l")
repeated = in_order(inside, "w", sequences("b", few))
moved_lines = in_order("\x1b[?6l", csi("r", 2, 5), csi("H", 3, 4), sequences("LM", counts), "\r")
scrolled = sequences("ST", counts)

mixes = st.lists(
    st.one_of(
        words, words, lines, moves, moves, pens, modes, margins, changes, coloured, inserted, repeated, moved_lines, scrolled
    ),
    max_size=20,
).map("".join)
#: Text of all widths, never written over other text.
texts = st.lists(
    st.one_of(words, lines, pens, st.just("\r\n"), st.text("日本語한글 e\u0301ñ☃абв", min_size=1, max_size=30)), max_size=20
).map(lambda parts: "".join(parts).lstrip("\u0301"))


def drawn(data: str) -> ScreenSnapshot:
    model = ScreenModel(COLS, ROWS)
    model.feed(data.encode())
    return model.snapshot(attributes=True)


@given(data=mixes)
def test_random_sequences_draw_same_cells_as_tmux(tmux: TmuxServer, data: str) -> None:
    found = differences(from_snapshot(drawn(data)), tmux.draw(data.encode(), COLS, ROWS))
    assert [str(one) for one in found] == []


@given(data=texts)
def test_text_of_all_widths_draws_same_cells_as_tmux(tmux: TmuxServer, data: str) -> None:
    found = differences(from_snapshot(drawn(data)), tmux.draw(data.encode(), COLS, ROWS))
    assert [str(one) for one in found] == []


EMOJI = "👩\u200d🚀 👩🏽\u200d🚀 👍🏽 ☝🏽 ❤\ufe0f 1\ufe0f\u20e3 🇩🇪 🇩🇪🇫🇷 ☃①➜\ue0b0🫠"
LETTERS = "한국 한 e\u0301\u0323 日\u0301 ก็ न \u200b \ufffd"


@pytest.mark.parametrize("text", f"{EMOJI} {LETTERS}".split())
@pytest.mark.parametrize("before", ["", "x", "x" * 18, "x" * 19, "x" * 20])
def test_character_cluster_draws_same_cells_as_tmux(tmux: TmuxServer, before: str, text: str) -> None:
    data = f"{before}{text}y"
    found = differences(from_snapshot(drawn(data)), tmux.draw(data.encode(), COLS, ROWS))
    assert [str(one) for one in found] == []


AT_THE_CURSOR = (("EL", "K"), ("ED", "J"), ("ECH", "X"), ("ICH", "@"), ("DCH", "P"))
#: What tmux does: the data, and the result of the model and xterm, as rows or the cursor.
DIFFERENT: dict[str, tuple[str, tuple[str, ...] | tuple[int, int]]] = {
    "BS: stays in the last column after a letter there": ("x" * 20 + "\bo", ("x" * 18 + "ox",)),
    **{
        f"{name}: not the last column after a letter there": (f"{'x' * 20}\x1b[{final}", ("x" * 19,))
        for name, final in AT_THE_CURSOR
    },
    "ICH: ignored if it covers the rest of the row": ("abc\r\x1b[20@", ("",)),
    "REP: stops at the end of the row": ("ab\x1b[30b", ("a" + "b" * 19, "b" * 12)),
    "IRM: a letter that wraps overwrites": ("x" * 20 + "\x1b[2;1Hyz\x1b[1;20Hx\x1b[4hw", ("x" * 20, "wyz")),
    "IL, DL: also outside the margins": ("a\r\nb\x1b[4;6r\x1b[1;2H\x1b[L", ("a", "b")),
    "IL, DL: the cursor stays in its column": ("abc\x1b[L", (0, 0)),
    "DECSTBM: in origin mode, cursor to the top of the screen": ("\x1b[?6h\x1b[3;5r", (2, 0)),
    "DECSTBM: 0 is not the default": ("\x1b[2;3r\x1b[0;0r\x1b[3;1H\n", (3, 0)),
    "DECRST 1049: on the main screen the cursor stays": ("\x1b7\r\n\x1b[?1049l", (0, 0)),
    "DECAWM: reset with a pending wrap, drops text": ("x" * 20 + "\x1b[?7lo", ("x" * 19 + "o", "")),
    "RIS: the alternate screen stays": ("main\x1b[?1049h\x1bca\x1b[?1049l", ("a",)),
    "DCH, ECH: leave half of a wide character": ("日本\x1b[1;1H\x1b[P", (" 本",)),
    "CHT: unknown": ("\x1b[I", (0, 8)),
    "HPR: unknown": ("\x1b[3a", (0, 3)),
    "VPR: unknown": ("\x1b[3e", (3, 0)),
    "DECSTR: unknown": ("\x1b(0\x1b[!pq", ("q",)),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_model_follows_xterm_where_tmux_differs(what: str) -> None:
    data, expected = DIFFERENT[what]
    snapshot = drawn(data)
    shown = snapshot.cursor if isinstance(expected[0], int) else snapshot.rows[: len(expected)]
    assert shown == expected


def test_row_scrolled_in_by_wrap_has_background() -> None:
    """As in xterm. In tmux only a row scrolled in by a line feed has it."""
    attributes = drawn("\x1b[6;19H\x1b[44mxxxx").attributes
    assert attributes is not None
    assert [(run.begin, run.end, run.bg) for run in attributes[ROWS - 1]] == [(0, COLS, "blue")]

"""Characters, their widths, and attributes."""

from __future__ import annotations

import pytest

from ptyctl.core.screen import ScreenModel, StyledRun

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
THUMB = "\U0001f44d\U0001f3fd"
HEART = "\u2764\ufe0f"


def drawn(text: str, cols: int = 8, rows: int = 3) -> ScreenModel:
    model = ScreenModel(cols, rows)
    model.feed(text.encode())
    return model


@pytest.mark.parametrize(
    ("text", "row", "column"),
    [
        ("é€", "é€", 2),
        ("日本", "日本", 4),
        ("e\u0301x", "e\u0301x", 2),
        (FAMILY + "x", FAMILY + "x", 3),
        (THUMB + "x", THUMB + "x", 5),
        (HEART + "x", HEART + "x", 2),
        ("\u0301x", "x", 1),
        ("日\b\bx", "x", 1),
        ("日\bx", " x", 2),
        ("日本\r\x1b[2Cx", "日x", 3),
        ("日本\r\x1b[Cx", " x本", 2),
        ("日本\r\x1b[C\x1b[@", "   本", 1),
        ("日本\r\x1b[P", " 本", 0),
        ("日本\r\x1b[K", "", 0),
        ("日本\x1b[3G\x1b[1K", "", 2),
        ("─│x", "─│x", 3),
        ("a\U000f0001b", "a\U000f0001b", 3),
        ("a\x85b", "ab", 2),
    ],
)
def test_draw_characters_fill_row_by_width(text: str, row: str, column: int) -> None:
    snapshot = drawn(text).snapshot()
    assert (snapshot.rows[0], snapshot.cursor[1]) == (row, column)


def test_draw_wide_character_wraps_as_a_whole() -> None:
    assert drawn("1234567日x").snapshot().rows == ("1234567", "日x", "")
    assert drawn("\x1b[?7l1234567日x").snapshot().rows == ("1234567x", "", "")


def test_draw_wide_character_on_one_column_is_dropped() -> None:
    assert drawn("a日b", cols=1).snapshot().rows == ("a", "b", "")


def test_draw_accent_at_pending_wrap_joins_last_cell() -> None:
    snapshot = drawn("1234567e\u0301x").snapshot()
    assert snapshot.rows == ("1234567e\u0301", "x", "")


def test_draw_cluster_length_is_limited() -> None:
    assert len(drawn("e" + "\u0301" * 1000).snapshot().rows[0]) == 16


@pytest.mark.parametrize(
    ("bytes_", "row"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"\xe6\x97x", "\ufffdx"),
        (b"\xe6\x97\x1b[Cx", "\ufffd x"),
        (b"\xf0\x9f\x91", ""),
    ],
)
def test_draw_invalid_utf8_gives_replacement_character(bytes_: bytes, row: str) -> None:
    model = ScreenModel(8, 1)
    model.feed(bytes_)
    assert model.snapshot().rows == (row,)


@pytest.mark.parametrize(
    ("sgr", "run"),
    [
        ("1", StyledRun(0, 1, bold=True)),
        ("2", StyledRun(0, 1, faint=True)),
        ("3", StyledRun(0, 1, italics=True)),
        ("4", StyledRun(0, 1, underline=True)),
        ("4:3", StyledRun(0, 1, underline=True)),
        ("21", StyledRun(0, 1, underline=True)),
        ("5", StyledRun(0, 1, blink=True)),
        ("6", StyledRun(0, 1, blink=True)),
        ("7", StyledRun(0, 1, reverse=True)),
        ("8", StyledRun(0, 1, hidden=True)),
        ("9", StyledRun(0, 1, strikethrough=True)),
        ("1;2;22;4;4:0;31", StyledRun(0, 1, fg="red")),
        ("31;1;0;32", StyledRun(0, 1, fg="green")),
        ("33;103", StyledRun(0, 1, fg="yellow", bg="brightyellow")),
        ("95;105", StyledRun(0, 1, fg="brightmagenta", bg="brightmagenta")),
        ("38;5;9;48;5;208", StyledRun(0, 1, fg="brightred", bg="color208")),
        ("38;2;1;2;255", StyledRun(0, 1, fg="#0102ff")),
        ("38:2:1:2:255", StyledRun(0, 1, fg="#0102ff")),
        ("48:2::1:2:255", StyledRun(0, 1, bg="#0102ff")),
        ("38:5:208;1", StyledRun(0, 1, fg="color208", bold=True)),
        ("58;5;1;3", StyledRun(0, 1, italics=True)),
        ("58:2::1:2:3;3", StyledRun(0, 1, italics=True)),
        ("38;5;256;1", StyledRun(0, 1, bold=True)),
        ("38;2;999;0;0;1", StyledRun(0, 1, bold=True)),
        ("1;38", StyledRun(0, 1, bold=True)),
        ("1;;3", StyledRun(0, 1, italics=True)),
        ("1;99999999999", StyledRun(0, 1, bold=True)),
    ],
)
def test_sgr_sets_attributes(sgr: str, run: StyledRun) -> None:
    """ECMA-48 8.3.117; ISO 8613-6 for `:`."""
    attributes = drawn(f"\x1b[{sgr}mx").snapshot(attributes=True).attributes
    assert attributes == ((run,), (), ())


def test_snapshot_attributes_only_on_request() -> None:
    model = drawn("日\x1b[1m本\x1b[22mx")
    assert model.snapshot().attributes is None
    assert model.snapshot(attributes=True).attributes == ((StyledRun(2, 4, bold=True),), (), ())


@pytest.mark.parametrize(
    "erase", ["\x1b[K", "\x1b[8X", "\x1b[8@", "\x1b[8P", "\x1b[J", "\x1b[2J", "\x1b[L", "\x1b[3S", "\x1b[3T"]
)
def test_erase_keeps_background_colour_only(erase: str) -> None:
    """xterm, back color erase."""
    attributes = drawn(f"\x1b[1;4;7;31;44m{erase}").snapshot(attributes=True).attributes
    assert attributes is not None
    assert attributes[0] == (StyledRun(0, 8, bg="blue"),)


def test_unused_styles_and_clusters_are_dropped() -> None:
    model = ScreenModel(80, 5)
    for part in range(20):
        model.feed("".join(f"\x1b[38;2;{part};{n % 256};{n // 256}m\x1b[He{chr(0x300 + n % 80)}" for n in range(1500)).encode())
        model.feed(f"\x1b[2;{part + 1}H\x1b[38;5;{part + 100}mu{chr(0x300 + part)}".encode())
    snapshot = model.snapshot(attributes=True)
    assert snapshot.rows[1] == "".join(f"u{chr(0x300 + part)}" for part in range(20))
    assert snapshot.attributes is not None
    assert snapshot.attributes[1] == tuple(StyledRun(part, part + 1, fg=f"color{part + 100}") for part in range(20))

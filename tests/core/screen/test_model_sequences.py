"""Each supported control and sequence, by the section of its standard."""

from __future__ import annotations

import pytest

from ptyctl.core.screen import ScreenModel

ABC = b"\x1b[H1aaa\x1b[2H2bbb\x1b[3H3ccc"


def drawn(data: bytes, cols: int = 8, rows: int = 4) -> ScreenModel:
    model = ScreenModel(cols, rows)
    model.feed(data)
    return model


SIDES = b"\x1b[?69h\x1b[3;6s"
ROWS = ("aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd")
FULL = "".join(ROWS).encode()


@pytest.mark.parametrize(
    ("section", "data", "rows", "cursor"),
    [
        ("ECMA-48 8.3.5 BS", b"ab\b\b\bX", ("Xb", "", "", ""), (0, 1)),
        ("ECMA-48 8.3.60 HT", b"a\tb", ("a      b", "", "", ""), (0, 7)),
        ("ECMA-48 8.3.74 LF", b"a\nb\n", ("a", " b", "", ""), (2, 2)),
        ("ECMA-48 8.3.161 VT and 8.3.51 FF", b"a\vb\fc", ("a", " b", "  c", ""), (2, 3)),
        ("ECMA-48 8.3.15 CR", b"abc\rX", ("Xbc", "", "", ""), (0, 1)),
        ("ECMA-48 8.3.88 NUL; and DEL, draw nothing", b"a\x00\x7fb", ("ab", "", "", ""), (0, 2)),
        ("VT510 LNM", b"\x1b[20ha\nb\x1b[20l\nc", ("a", "b", " c", ""), (2, 2)),
        ("ECMA-48 7.2.10 IRM", b"abc\r\x1b[4hXY\x1b[4lZ", ("XYZbc", "", "", ""), (0, 3)),
        ("ECMA-48 8.3.21 CUP", b"\x1b[2;3Hx", ("", "  x", "", ""), (1, 3)),
        ("ECMA-48 8.3.21 CUP without parameters, beyond the end", b"\x1b[99;99Hx\x1b[Hy", ("y", "", "", "       x"), (0, 1)),
        ("ECMA-48 8.3.63 HVP", b"\x1b[2;3fx", ("", "  x", "", ""), (1, 3)),
        ("ECMA-48 8.3.22 CUU", b"\x1b[3;2H\x1b[2Ax\x1b[9Ay", (" xy", "", "", ""), (0, 3)),
        ("ECMA-48 8.3.19 CUD", b"\x1b[2Bx\x1b[9By", ("", "", "x", " y"), (3, 2)),
        ("ECMA-48 8.3.20 CUF", b"\x1b[2Cx\x1b[99Cy", ("  x    y", "", "", ""), (0, 7)),
        ("ECMA-48 8.3.18 CUB", b"abc\x1b[2DX\x1b[99DY", ("YXc", "", "", ""), (0, 1)),
        ("ECMA-48 8.3.12 CNL", b"ab\x1b[2Ex", ("ab", "", "x", ""), (2, 1)),
        ("ECMA-48 8.3.13 CPL", b"\r\n\r\nab\x1b[Fx", ("", "x", "ab", ""), (1, 1)),
        ("ECMA-48 8.3.9 CHA", b"abc\x1b[2GX\x1b[GY", ("YXc", "", "", ""), (0, 1)),
        ("ECMA-48 8.3.57 HPA and 8.3.59 HPR", b"\x1b[3`a\x1b[2ab", ("  a  b", "", "", ""), (0, 6)),
        ("ECMA-48 8.3.158 VPA and 8.3.160 VPR", b"a\x1b[2db\x1b[2ec", ("a", " b", "", "  c"), (3, 3)),
        ("ECMA-48 8.3.10 CHT and 8.3.7 CBT", b"\x1b[Ix\x1b[9Zy", ("y      x", "", "", ""), (0, 1)),
        ("ECMA-48 8.3.39 ED 0", ABC + b"\x1b[2;3H\x1b[J", ("1aaa", "2b", "", ""), (1, 2)),
        ("ECMA-48 8.3.39 ED 1", ABC + b"\x1b[2;3H\x1b[1J", ("", "   b", "3ccc", ""), (1, 2)),
        ("ECMA-48 8.3.39 ED 2", ABC + b"\x1b[2J", ("", "", "", ""), (2, 4)),
        ("ECMA-48 8.3.39 ED 4 is unknown", ABC + b"\x1b[4J", ("1aaa", "2bbb", "3ccc", ""), (2, 4)),
        ("ECMA-48 8.3.41 EL 0", b"abcdef\x1b[3G\x1b[K", ("ab", "", "", ""), (0, 2)),
        ("ECMA-48 8.3.41 EL 1", b"abcdef\x1b[3G\x1b[1K", ("   def", "", "", ""), (0, 2)),
        ("ECMA-48 8.3.41 EL 2", b"abcdef\x1b[3G\x1b[2K", ("", "", "", ""), (0, 2)),
        ("DEC STD 070 DECSED and DECSEL", ABC + b"\x1b[2;3H\x1b[?K\x1b[3H\x1b[?J", ("1aaa", "2b", "", ""), (2, 0)),
        ("ECMA-48 8.3.38 ECH", b"abcdef\x1b[2G\x1b[3X", ("a   ef", "", "", ""), (0, 1)),
        ("ECMA-48 8.3.64 ICH", b"abcdefgh\x1b[2G\x1b[3@", ("a   bcde", "", "", ""), (0, 1)),
        ("ECMA-48 8.3.26 DCH", b"abcdefgh\x1b[2G\x1b[3P", ("aefgh", "", "", ""), (0, 1)),
        ("ECMA-48 8.3.67 IL", ABC + b"\x1b[2;3H\x1b[L", ("1aaa", "", "2bbb", "3ccc"), (1, 0)),
        ("ECMA-48 8.3.32 DL", ABC + b"\x1b[1;3H\x1b[2M", ("3ccc", "", "", ""), (0, 0)),
        ("ECMA-48 8.3.147 SU", ABC + b"\x1b[2S", ("3ccc", "", "", ""), (2, 4)),
        ("ECMA-48 8.3.113 SD", ABC + b"\x1b[T", ("", "1aaa", "2bbb", "3ccc"), (2, 4)),
        ("xterm: CSI T with five parameters is no SD", ABC + b"\x1b[1;1;1;1;1T", ("1aaa", "2bbb", "3ccc", ""), (2, 4)),
        ("ECMA-48 8.3.103 REP", b"ab\x1b[3b", ("abbbb", "", "", ""), (0, 5)),
        ("ECMA-48 8.3.103 REP after a control is undefined", b"ab\r\x1b[3b", ("ab", "", "", ""), (0, 0)),
        ("ECMA-48 8.3.154 TBC, 8.3.62 HTS", b"\x1b[3g\x1b[4G\x1bH\r\tx", ("   x", "", "", ""), (0, 4)),
        ("VT510 IND", ABC + b"\x1b[4;2H\x1bD", ("2bbb", "3ccc", "", ""), (3, 1)),
        ("ECMA-48 8.3.86 NEL", b"ab\x1bEc", ("ab", "c", "", ""), (1, 1)),
        ("ECMA-48 8.3.104 RI", ABC + b"\x1b[1;2H\x1bM", ("", "1aaa", "2bbb", "3ccc"), (0, 1)),
        ("VT510 DECSTBM scrolls its rows", ABC + b"\x1b[2;3r\x1b[3H\n", ("1aaa", "3ccc", "", ""), (2, 0)),
        ("VT510 DECSTBM homes the cursor", ABC + b"\x1b[2;3rX", ("Xaaa", "2bbb", "3ccc", ""), (0, 1)),
        ("VT510 DECSTBM of one row is ignored", ABC + b"\x1b[2;2rX", ("1aaa", "2bbb", "3cccX", ""), (2, 5)),
        ("VT510 DECSTBM: IL and DL stay inside", ABC + b"\x1b[1;2r\x1b[L", ("", "1aaa", "3ccc", ""), (0, 0)),
        ("VT510 DECSTBM: no scrolling below it", ABC + b"\x1b[1;2r\x1b[4H\n\nX", ("1aaa", "2bbb", "3ccc", "X"), (3, 1)),
        ("VT510 DECSTBM: CUU from above it", ABC + b"\x1b[2;3r\x1b[1;5H\x1b[AX", ("1aaaX", "2bbb", "3ccc", ""), (0, 5)),
        ("VT510 DECOM", b"\x1b[2;3r\x1b[?6ha\x1b[9;2Hb\x1b[?6lc", ("c", "a", " b", ""), (0, 1)),
        ("VT510 DECAWM set", b"abcdefghij", ("abcdefgh", "ij", "", ""), (1, 2)),
        ("VT510 DECAWM reset", b"\x1b[?7labcdefghij", ("abcdefgj", "", "", ""), (0, 7)),
        ("DEC STD 070 last column flag: CR", b"abcdefgh\rX", ("Xbcdefgh", "", "", ""), (0, 1)),
        ("DEC STD 070 last column flag: the cursor is on the last column", b"abcdefgh", ("abcdefgh", "", "", ""), (0, 7)),
        ("DEC STD 070 last column flag: BS", b"abcdefgh\bX", ("abcdefXh", "", "", ""), (0, 7)),
        ("DEC STD 070 last column flag: CUU ends it", b"\r\nabcdefgh\x1b[AX", ("       X", "abcdefgh", "", ""), (0, 7)),
        ("DEC STD 070 last column flag: SGR keeps it", b"abcdefgh\x1b[1mi", ("abcdefgh", "i", "", ""), (1, 1)),
        ("VT510 DECSC and DECRC", b"ab\x1b7\x1b[3;3Hx\x1b8c", ("abc", "", "  x", ""), (0, 3)),
        ("VT510 DECRC with nothing saved goes home", b"\r\nab\x1b8c", ("c", "ab", "", ""), (0, 1)),
        ("SCOSC and SCORC", b"ab\x1b[s\x1b[3;3Hx\x1b[uc", ("abc", "", "  x", ""), (0, 3)),
        ("VT510 DECALN", b"ab\x1b[2;3r\x1b#8", ("EEEEEEEE",) * 4, (0, 0)),
        ("VT510 RIS", ABC + b"\x1b[2;3r\x1b[?6h\x1b[4h\x1bcab\rX", ("Xb", "", "", ""), (0, 1)),
        ("VT510 DECSTR", b"\x1b[2;3r\x1b[?6h\x1b[4h\x1b(0\x1b[!p\x1b[Hqq\rX", ("Xq", "", "", ""), (0, 1)),
        ("VT510 DECCOLM clears and homes", ABC + b"\x1b[?3hX", ("X", "", "", ""), (0, 1)),
        ("VT220 2.4 special graphics", b"\x1b(0lqk\x1b(Bq", ("┌─┐q", "", "", ""), (0, 4)),
        ("ECMA-35 7.3 SO and SI", b"\x1b)0q\x0eq\x0fq", ("q─q", "", "", ""), (0, 3)),
        ("ECMA-48 5.4: a control inside of a sequence", b"ab\x1b[\n2Dx", ("ab", "x", "", ""), (1, 1)),
        ("DEC STD 070: CAN ends a sequence", b"\x1b[2\x18Cx", ("Cx", "", "", ""), (0, 2)),
        ("DEC STD 070: ESC begins another", b"\x1b[2\x1b[Cx", (" x", "", "", ""), (0, 2)),
        ("ECMA-48 5.6: DCS and APC", b"\x1bPq#0\x1b\\a\x1b_x\x1b\\b", ("ab", "", "", ""), (0, 2)),
        ("ECMA-48 5.6: PM and SOS", b"\x1b^y\x1b\\a\x1bXz\x1b\\b", ("ab", "", "", ""), (0, 2)),
        ("ECMA-48 5.6: BEL ends only OSC", b"\x1b]0;t\x07a\x1bPx\x07y\x1b\\b", ("ab", "", "", ""), (0, 2)),
        ("ECMA-48 5.4.2: surplus parameters", b"\x1b[2;3;4;5Hx\x1b[3:4;9Ay", ("   y", "  x", "", ""), (0, 4)),
        ("ECMA-48 5.4.1: private ones that are unknown", b"a\x1b[?4m\x1b[>4;1m\x1b[?r\x1b[?2Cb", ("ab", "", "", ""), (0, 2)),
        ("VT510 DECSLRM: autowrap", SIDES + b"\x1b[;3Habcdef", ("  abcd", "  ef", "", ""), (1, 4)),
        ("VT510 DECSLRM: autowrap off", SIDES + b"\x1b[?7l\x1b[;3Habcdef", ("  abcf", "", "", ""), (0, 5)),
        ("VT510 DECSLRM: the last column flag is at the margin", SIDES + b"\x1b[;3Habcd", ("  abcd", "", "", ""), (0, 5)),
        ("VT510 DECSLRM: BS ends the flag", SIDES + b"\x1b[;3Habcd\bX", ("  abXd", "", "", ""), (0, 5)),
        ("VT510 DECSLRM: right of the margin", SIDES + b"\x1b[;7Habcd", ("      ab", "  cd", "", ""), (1, 4)),
        ("VT510 DECSLRM homes the cursor", b"ab" + SIDES + b"X", ("Xb", "", "", ""), (0, 1)),
        ("VT510 DECSLRM of one column is ignored", b"\x1b[?69hab\x1b[3;3sX", ("abX", "", "", ""), (0, 3)),
        ("VT510 DECSLRM without DECLRMM is SCOSC", b"ab\x1b[3;4scd\x1b[uX", ("abXd", "", "", ""), (0, 3)),
        ("VT510 DECLRMM reset removes the margins", SIDES + b"\x1b[?69l\x1b[;3Habcdef", ("  abcdef", "", "", ""), (0, 7)),
        ("DEC STD 070 CR and the left margin", SIDES + b"\x1b[;5H\rX\x1b[2;2H\rY", ("  X", "Y", "", ""), (1, 1)),
        ("DEC STD 070 CUF and CUB stop at the margins", SIDES + b"\x1b[;4H\x1b[9CX\x1b[9DY", ("  Y  X", "", "", ""), (0, 3)),
        ("DEC STD 070 HT stops at the margin", SIDES + b"\tX", ("     X", "", "", ""), (0, 5)),
        ("VT510 IND", FULL + SIDES + b"\x1b[4;3H\x1bD", ("aabbbbaa", "bbccccbb", "ccddddcc", "dd    dd"), (3, 2)),
        ("DEC STD 070 IND outside of the margins does not scroll", FULL + SIDES + b"\x1b[4;1H\x1bD", ROWS, (3, 0)),
        ("DEC STD 070 RI", FULL + SIDES + b"\x1b[1;3H\x1bM", ("aa    aa", "bbaaaabb", "ccbbbbcc", "ddccccdd"), (0, 2)),
        ("VT510 IL and DL", FULL + SIDES + b"\x1b[2;4H\x1b[L", ("aaaaaaaa", "bb    bb", "ccbbbbcc", "ddccccdd"), (1, 2)),
        ("VT510 ICH", b"abcdefgh" + SIDES + b"\x1b[;4H\x1b[@", ("abc degh", "", "", ""), (0, 3)),
        ("VT510 DCH", b"abcdefgh" + SIDES + b"\x1b[;4H\x1b[P", ("abcef gh", "", "", ""), (0, 3)),
        ("VT510 ICH outside of the margins", b"abcdefgh" + SIDES + b"\x1b[;8H\x1b[@", ("abcdefgh", "", "", ""), (0, 7)),
        ("VT510 DECOM counts columns from the margin", SIDES + b"\x1b[?6ha\x1b[2;9Hb", ("  a", "     b", "", ""), (1, 5)),
        ("VT510 SL and SR", b"abcdefgh\x1b[2 @\x1b[ A", (" cdefgh", "", "", ""), (0, 7)),
        ("VT510 DECIC and DECDC", b"abcd\x1b[;2H\x1b['}\x1b[;4H\x1b['~", ("a bd", "", "", ""), (0, 3)),
        ("VT510 DECBI and DECFI", b"abcdefgh\x1b[H\x1b6\x1b[2;8H\x1b9", ("abcdefg", "", "", ""), (1, 7)),
        ("VT510 DECSCA and DECSED", b"a\x1b[1\"qb\x1b[0\"qc\x1b[?2J", (" b", "", "", ""), (0, 3)),
        ("VT510 DECSCA and DECSEL", b"a\x1b[1\"qb\x1b[2\"qc\x1b[?2K", (" b", "", "", ""), (0, 3)),
        ("VT510 DECSCA: ED erases", b"a\x1b[1\"qb\x1b[2J", ("", "", "", ""), (0, 2)),
        ("VT510 DECSCA is not an attribute of SGR", b"\x1b[1\"q\x1b[ma\x1b[?2J", ("a", "", "", ""), (0, 1)),
        ("ECMA-48 8.3.129 SPA and EPA", b"a\x1bVb\x1bWc\x1b[2J", (" b", "", "", ""), (0, 3)),
        ("ECMA-48 8.3.129 SPA: ECH and EL", b"\x1bVb\x1bWcde\x1b[H\x1b[3X\x1b[4GX\x1b[2K", ("b", "", "", ""), (0, 4)),
        ("xterm: DECSTR ends protection", b"\x1bVb\x1b[!p\x1b[2J", ("", "", "", ""), (0, 1)),
        ("VT510 DECFRA", b"\x1b[88;2;3;3;4$x", ("", "  XX", "  XX", ""), (0, 0)),
        ("VT510 DECERA", FULL + b"\x1b[2;3;3;4$z", ("aaaaaaaa", "bb  bbbb", "cc  cccc", "dddddddd"), (3, 7)),
        ("VT510 DECERA of an invalid area", FULL + b"\x1b[3;3;2;4$z", ROWS, (3, 7)),
        ("VT510 DECSERA", b"\x1b[1\"qa\x1b[\"qb\x1b[${", ("a", "", "", ""), (0, 2)),
        ("VT510 DECCRA", FULL + b"\x1b[1;1;2;2;1;2;2;1$v", ("aaaaaaaa", "baabbbbb", "cbbccccc", "dddddddd"), (3, 7)),
        ("VT510 DECCRA beyond the screen", FULL + b"\x1b[1;1;2;2;1;4;8;1$v", (*ROWS[:3], "ddddddda"), (3, 7)),
        ("VT510 DECCRA splits wide characters", "日本".encode() + b"\x1b[1;2;1;3;1;2;1;1$v", ("日本", "", "", ""), (0, 4)),
        ("VT510 DECSCL below level 4", b"\x1b[63;1\"p\x1b[88$x" + SIDES + b"X", ("X", "", "", ""), (0, 1)),
        ("xterm: reverse wraparound", b"\x1b[?45h\x1b[2H\bX", ("       X", "", "", ""), (0, 7)),
        ("xterm: XTSAVE and XTRESTORE", b"\x1b[?7s\x1b[?7l\x1b[?7rabcdefghi", ("abcdefgh", "i", "", ""), (1, 1)),
        ("xterm: a saved cursor each", b"\x1b[?47h\x1b[3;3H\x1b7\x1b[?47l\x1b8a\x1b[?47h\x1b8x", ("", "", "  x", ""), (2, 3)),
        ("C1 controls as characters of UTF-8 are dropped", b"a\xc2\x9b2Cb", ("a2Cb", "", "", ""), (0, 4)),
    ],
)  # fmt: skip
def test_control_sequence_moves_cursor_and_changes_rows(
    section: str, data: bytes, rows: tuple[str, ...], cursor: tuple[int, int]
) -> None:
    snapshot = drawn(data).snapshot()
    assert (snapshot.rows, snapshot.cursor) == (rows, cursor), section

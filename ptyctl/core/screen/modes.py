"""Terminal modes, numbered as in pyte: private modes are shifted (ECMA-48 7; xterm, DEC private modes)."""

from __future__ import annotations

from pyte import modes

from ptyctl.core import control_sequences

IRM, LNM = modes.IRM, modes.LNM
#: Keyboard lock and local echo are stored only.
PUBLIC = frozenset({2, IRM, 12, LNM})
#: ECMA-48 modes that are reported as permanently reset, as in xterm.
PUBLIC_RESET = frozenset({1, 5, 7, 10, 11, 13, 14, 15, 16, 17, 18, 19})


def private(number: int) -> int:
    return number << 5


def number(mode: int) -> int:
    return mode >> 5


DECCKM = private(control_sequences.DECCKM)
DECCOLM = modes.DECCOLM
DECSCNM = modes.DECSCNM
DECOM = modes.DECOM
DECAWM = modes.DECAWM
DECTCEM = modes.DECTCEM
DECNKM = private(66)  # application keypad, also ESC = and ESC >
REVERSE_WRAP = private(45)
DECLRMM = private(69)
SAVED_CURSOR = private(1048)
#: The alternate screen; 1049 also saves and restores the cursor.
ALTERNATE = frozenset(map(private, control_sequences.ALTERNATE_SCREENS))
ALTERNATE_AND_CURSOR = private(1049)
#: Reported as permanently reset: 132 columns, because the far end does not change the size, and a horizontal scroll bar.
PRIVATE_RESET = frozenset({DECCOLM, private(60)})
#: Mouse tracking; setting one mode resets the others.
MOUSE = frozenset(map(private, (9, 1000, 1002, 1003)))

DEFAULT = frozenset({DECAWM, DECTCEM})
#: Stored for redrawing and without effect on cells: cursor keys, smooth scroll, reverse video, blinking, printer, 80/132
#: columns, national characters, keypad, backspace key, mouse, focus, mouse encodings, wheel as arrows, bracketed paste,
#: synchronised output.
KEPT = MOUSE | {
    DECCKM,
    DECSCNM,
    DECNKM,
    *map(private, (4, 12, 18, 19, 40, 42, 67, 1004, 1005, 1006, 1007, 1015, control_sequences.BRACKETED_PASTE, 2026)),
}
EFFECTIVE = PUBLIC | {DECOM, DECAWM, DECTCEM, REVERSE_WRAP, DECLRMM}
KNOWN = KEPT | EFFECTIVE

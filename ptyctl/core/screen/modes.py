"""Terminal modes, numbered as in pyte: private modes are shifted (ECMA-48 7; xterm, DEC private modes)."""

from __future__ import annotations

from pyte import modes

IRM, LNM = modes.IRM, modes.LNM
PUBLIC = frozenset({IRM, LNM})


def private(number: int) -> int:
    return number << 5


def number(mode: int) -> int:
    return mode >> 5


DECCKM = private(1)
DECCOLM = modes.DECCOLM
DECSCNM = modes.DECSCNM
DECOM = modes.DECOM
DECAWM = modes.DECAWM
DECTCEM = modes.DECTCEM
DECNKM = private(66)  # application keypad, also ESC = and ESC >
SAVED_CURSOR = private(1048)
#: The alternate screen; 1049 also saves and restores the cursor.
ALTERNATE = frozenset(map(private, (47, 1047, 1049)))
ALTERNATE_AND_CURSOR = private(1049)
#: Mouse tracking; setting one mode resets the others.
MOUSE = frozenset(map(private, (9, 1000, 1002, 1003)))

DEFAULT = frozenset({DECAWM, DECTCEM})
#: Stored for redrawing and without effect on cells: cursor keys, reverse video, blinking, keypad, mouse, focus, mouse
#: encodings, wheel as arrows, bracketed paste, synchronised output.
KEPT = MOUSE | {DECCKM, DECSCNM, DECNKM, *map(private, (12, 1004, 1005, 1006, 1007, 1015, 2004, 2026))}
EFFECTIVE = PUBLIC | {DECOM, DECAWM, DECTCEM}
KNOWN = KEPT | EFFECTIVE

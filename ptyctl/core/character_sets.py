"""Character sets of a terminal that are not ASCII (ECMA-35; VT220 manual, table 2-4)."""

from __future__ import annotations

#: DEC special graphics: a translation for `str.translate`.
SPECIAL_GRAPHICS = dict(zip(range(ord("_"), 0x7F), " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))

"""Characters beyond ASCII: DEC special graphics (ECMA-35; VT220 manual, table 2-4), zero width joiner (Unicode)."""

from __future__ import annotations

#: DEC special graphics: a translation for `str.translate`.
SPECIAL_GRAPHICS = dict(zip(range(ord("_"), 0x7F), " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))
#: Joins two characters into one cluster.
ZERO_WIDTH_JOINER = "\u200d"

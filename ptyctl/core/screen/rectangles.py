"""Rectangular areas: fill, erase, copy, change attributes, checksum (VT420; VT510 manual, chapter 5; xterm).

Parameters are top, left, bottom and right, 1-based. In origin mode they count from the margins, and the margins limit them;
otherwise margins have no effect. The cursor does not move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import modes
from .attributes import Style, restyled
from .cells import width
from .emulator import Emulator
from .parser import Numbers

_LEVEL = 4
#: Cost of the most expensive function, a checksum, for a cell, relative to a copy.
_CELL_COST = 8
#: By attribute of a cell: its weight in a checksum (DEC STD 070).
_WEIGHTS = {"protection": 0x04, "hidden": 0x08, "underline": 0x10, "reverse": 0x20, "blink": 0x40, "bold": 0x80}
#: By SGR parameter that DECRARA reverses: the attribute.
_REVERSIBLE = {1: "bold", 4: "underline", 5: "blink", 7: "reverse", 8: "hidden"}


class _Area(NamedTuple):
    """Rows and columns, ends exclusive."""

    top: int
    left: int
    bottom: int
    right: int


def _limits(emulator: Emulator) -> _Area:
    if modes.DECOM not in emulator.mode:
        return _Area(0, 0, emulator.lines, emulator.columns)
    (top, bottom), (left, right) = emulator.region, emulator.side_margins
    return _Area(top, left, bottom + 1, right + 1)


def _area(emulator: Emulator, values: Numbers) -> _Area | None:
    """Return the area of four parameters, or None if it is empty."""
    limits = _limits(emulator)
    top, left, bottom, right = (*values, 0, 0, 0, 0)[:4]
    area = _Area(
        limits.top + max(top, 1) - 1,
        limits.left + max(left, 1) - 1,
        min(limits.top + bottom, limits.bottom) if bottom else limits.bottom,
        min(limits.left + right, limits.right) if right else limits.right,
    )
    if emulator.level < _LEVEL or area.top >= area.bottom or area.left >= area.right:
        return None
    emulator.charge(area.bottom - area.top, _CELL_COST * (area.right - area.left))
    return area


def _rows(area: _Area) -> range:
    return range(area.top, area.bottom)


def fill(emulator: Emulator, values: Numbers) -> None:
    """Fill an area with a character in the pen's style (DECFRA)."""
    char, area = chr(min(values[0], 0x10FFFF)), _area(emulator, values[1:])
    if area is not None and (" " <= char <= "~" or (char >= "\xa0" and width(char) == 1)):
        cells = emulator.clusters.cell(char) * (area.right - area.left)
        for y in _rows(area):
            emulator.grid.put(y, area.left, cells, emulator.pen)


def erase(emulator: Emulator, values: Numbers) -> None:
    """Erase an area, also its protected cells (DECERA)."""
    area = _area(emulator, values)
    if area is not None:
        for y in _rows(area):
            emulator.grid.erase(y, area.left, area.right, emulator.blank)


def erase_selectively(emulator: Emulator, values: Numbers) -> None:
    """Erase an area except for cells that DECSCA protects (DECSERA)."""
    area = _area(emulator, values)
    if area is not None:
        for y in _rows(area):
            emulator.erase(y, area.left, area.right, "selective")


def copy(emulator: Emulator, values: Numbers) -> None:
    """Copy an area to another place; the part that does not fit is dropped (DECCRA). Pages do not exist."""
    area, limits = _area(emulator, values[:4]), _limits(emulator)
    top, left = (*values[5:], 0, 0)[:2]
    if area is None:
        return
    y, x = limits.top + max(top, 1) - 1, limits.left + max(left, 1) - 1
    if x >= limits.right:
        return
    rows = [emulator.grid.cut(row, area.left, min(area.right, area.left + limits.right - x)) for row in _rows(area)]
    for number, (text, styles) in enumerate(rows[: max(limits.bottom - y, 0)]):
        emulator.grid.paste(y + number, x, text, styles)


def set_extent(emulator: Emulator, values: Numbers) -> None:
    """Select the extent of DECCARA and DECRARA: a stream of text (0, 1) or a rectangle (2) (DECSACE)."""
    if values[0] <= 2:
        emulator.rectangular = values[0] == 2


def change_attributes(emulator: Emulator, values: Numbers) -> None:
    """Apply SGR parameters to the cells of an area (DECCARA)."""
    parameters = ";".join(map(str, values[4:]))
    _restyle(emulator, values, lambda style: restyled(style, parameters))


def reverse_attributes(emulator: Emulator, values: Numbers) -> None:
    """Reverse attributes in the cells of an area (DECRARA)."""
    names = [_REVERSIBLE[code] for code in values[4:] or (0,) if code in _REVERSIBLE]
    if 0 in (values[4:] or (0,)):
        names += _REVERSIBLE.values()
    _restyle(emulator, values, lambda style: Style(**style._asdict() | {name: not getattr(style, name) for name in names}))


def _restyle(emulator: Emulator, values: Numbers, change: Callable[[Style], Style]) -> None:
    area, styles = _area(emulator, values[:4]), emulator.grid.styles
    if area is None:
        return
    changed: dict[str, str] = {}
    for y, begin, end in _spans(emulator, area):
        for style in set(styles[y][begin:end]) - changed.keys():
            changed[style] = emulator.styles.char(change(emulator.styles.value(style)))
        styles[y] = styles[y][:begin] + "".join(map(changed.__getitem__, styles[y][begin:end])) + styles[y][end:]


def _spans(emulator: Emulator, area: _Area) -> Iterator[tuple[int, int, int]]:
    """Yield row, first column and end of the cells that DECCARA and DECRARA change."""
    limits = _limits(emulator)
    for y in _rows(area):
        stream = not emulator.rectangular
        begin = limits.left if stream and y > area.top else area.left
        yield y, begin, limits.right if stream and y < area.bottom - 1 else area.right


def _weight(style: Style) -> int:
    return sum(weight for name, weight in _WEIGHTS.items() if getattr(style, name))


def checksum(emulator: Emulator, values: Numbers) -> int:
    """Return the checksum of an area (DECRQCRA): the negative sum of its characters and attributes in 16 bits.

    Flags of XTCHECKSUM: 1 does not negate the sum, 2 leaves out the attributes.
    """
    total, area = 0, _area(emulator, values)
    if area is None:
        return 0
    for y in _rows(area):
        text, styles = emulator.grid.cut(y, area.left, area.right)
        total += sum(map(ord, emulator.clusters.text(text)))
        if not emulator.checksum_flags & 2:
            total += sum(count * _weight(emulator.styles.value(style)) for style, count in Counter(styles).items())
    return (total if emulator.checksum_flags & 1 else -total) & 0xFFFF

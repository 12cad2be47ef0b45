"""Colours that the far end sets, resets and queries (xterm, OSC 4, 5, 10 to 19, 104, 105, 110 to 119).

They are only stored, for later queries: cells name their colours, and viewers have a palette of their own. A response contains
three numbers and nothing that the far end chose as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .attributes import palette

Colour = tuple[int, ...]
#: By OSC number and index: red, green and blue, 8 bits each.
Colours = dict[tuple[int, int], Colour]

PALETTE, SPECIAL = 4, 5
_LIGHT, _DARK = (0xE5, 0xE5, 0xE5), (0, 0, 0)
#: Text, background, cursor, mouse, mouse background, Tektronix text, background, selection, Tektronix cursor, selected text.
DYNAMIC: dict[int, Colour] = dict(
    zip(range(10, 20), (_LIGHT, _DARK, _LIGHT, _LIGHT, _DARK, _LIGHT, _DARK, _LIGHT, _LIGHT, _DARK), strict=True)
)
_SPECIAL_COLOURS = 5  # of bold, underlined, blinking, reverse and italic text
_MAX_QUERIES = 16
_RGB = re.compile(r"rgb:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_HASH = re.compile(r"#([0-9a-fA-F]{3}|[0-9a-fA-F]{6}|[0-9a-fA-F]{9}|[0-9a-fA-F]{12})")


def change_colours(colours: Colours, code: int, value: str) -> Iterator[str]:
    """Apply an OSC with this number and text, and yield the bodies of the responses to its queries."""
    parts = value.split(";")
    if code in (PALETTE, SPECIAL):
        pairs = parts[: 2 * _MAX_QUERIES]
        for number, request in zip(pairs[::2], pairs[1::2], strict=False):
            index = int(number) if number.isdecimal() and len(number) <= 3 else -1
            if (what := _indexed(code, index)) is not None:
                yield from _change(colours, what, request, f"{code};{index}")
    elif code in DYNAMIC:
        for dynamic, request in enumerate(parts, code):
            if dynamic in DYNAMIC:
                yield from _change(colours, (dynamic, 0), request, str(dynamic))
    elif code - 100 in (PALETTE, SPECIAL):
        indexes = [int(part) for part in parts if part.isdecimal() and len(part) <= 3]
        for what in [_indexed(code - 100, index) for index in indexes] if indexes else list(colours):
            if what is not None and (indexes or what[0] == code - 100):
                colours.pop(what, None)
    elif code - 100 in DYNAMIC:
        colours.pop((code - 100, 0), None)


def colour_sequences(colours: Colours) -> Iterator[str]:
    """Yield sequences that set these colours."""
    for (code, index), colour in sorted(colours.items()):
        what = f"{code};{index}" if code in (PALETTE, SPECIAL) else str(code)
        yield f"\x1b]{what};#{bytes(colour).hex()}\x1b\\"


def _indexed(code: int, index: int) -> tuple[int, int] | None:
    """Return the colour with this index; after the palette follow the special colours."""
    if code == PALETTE and 0 <= index < 256:
        return PALETTE, index
    index -= 256 if code == PALETTE else 0
    return (SPECIAL, index) if 0 <= index < _SPECIAL_COLOURS else None


def _change(colours: Colours, what: tuple[int, int], request: str, name: str) -> Iterator[str]:
    if request == "?":
        code, index = what
        initial = palette(index) if code == PALETTE else _LIGHT if code == SPECIAL else DYNAMIC[code]
        value = "/".join(f"{part:02x}{part:02x}" for part in colours.get(what, initial))
        yield f"{name};rgb:{value}"
    elif (colour := _parse(request)) is not None:
        colours[what] = colour


def _parse(text: str) -> Colour | None:
    """Return a colour in one of the forms of XParseColor: numbers are scaled after `rgb:` and shifted after `#`."""
    if found := _RGB.fullmatch(text):
        return tuple(int(part, 16) * 255 // (16 ** len(part) - 1) for part in found.groups())
    if found := _HASH.fullmatch(text):
        size = len(found[1]) // 3
        parts = (found[1][begin : begin + size] for begin in range(0, 3 * size, size))
        return tuple(int(part.ljust(2, "0")[:2], 16) for part in parts)
    return None

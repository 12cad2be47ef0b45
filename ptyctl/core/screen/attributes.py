"""Attributes of cells: reading and writing SGR, colours (ECMA-48 8.3.117; ISO 8613-6 for `:`; xterm for 90-107)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_COLOURS = _NAMES + tuple(f"bright{name}" for name in _NAMES)
_NUMBERS = {name: number for number, name in enumerate(_COLOURS)}
_INDEXED = "color"


class Style(NamedTuple):
    """The attributes of a cell: the fields of `StyledRun` in the same order, then its protection.

    `protection` is `selective` (DECSCA: kept by DECSED, DECSEL and DECSERA), `guarded` (SPA, ECMA-48 8.3.129: kept by ED, EL
    and ECH), or empty.
    """

    fg: str = "default"
    bg: str = "default"
    bold: bool = False
    faint: bool = False
    italics: bool = False
    underline: bool = False
    blink: bool = False
    reverse: bool = False
    hidden: bool = False
    strikethrough: bool = False
    protection: str = ""


PLAIN = Style()

_FLAGS = {1: "bold", 2: "faint", 3: "italics", 4: "underline", 5: "blink", 7: "reverse", 8: "hidden", 9: "strikethrough"}
_CHANGES: dict[int, dict[str, str | bool]] = {
    **{code: {flag: True} for code, flag in _FLAGS.items()},
    **{code + 20: {flag: False} for code, flag in _FLAGS.items() if code > 2},
    0: {name: value for name, value in PLAIN._asdict().items() if name != "protection"},
    6: {"blink": True},
    21: {"underline": True},
    22: {"bold": False, "faint": False},
    39: {"fg": "default"},
    49: {"bg": "default"},
    **{30 + number: {"fg": name} for number, name in enumerate(_NAMES)},
    **{40 + number: {"bg": name} for number, name in enumerate(_NAMES)},
    **{90 + number: {"fg": f"bright{name}"} for number, name in enumerate(_NAMES)},
    **{100 + number: {"bg": f"bright{name}"} for number, name in enumerate(_NAMES)},
}
#: Codes with arguments. The colour of an underline is parsed and ignored.
_UNDERLINE_COLOUR = 58
_EXTENDED = {38: "fg", 48: "bg", _UNDERLINE_COLOUR: ""}


def restyled(style: Style, parameters: str) -> Style:
    """Return `style` after SGR with these parameters. Unknown and out-of-range values are ignored."""
    values: dict[str, str | bool] = style._asdict()
    codes = iter(parameters.split(";"))
    for code in codes:
        number, _, arguments = code.partition(":")
        value = _number(number)
        if value in _EXTENDED:
            colour = _colour(iter(_without_space(arguments))) if arguments else _colour(codes)
            if colour is not None and value != _UNDERLINE_COLOUR:
                values[_EXTENDED[value]] = colour
        elif value == 4 and arguments:
            values["underline"] = _number(arguments) != 0
        elif not arguments:
            values.update(_CHANGES.get(value, {}))
    return Style(**values)  # type: ignore[arg-type]


@lru_cache(maxsize=1024)
def sgr(style: Style) -> bytes:
    """Return SGR that sets this style, regardless of the previous one."""
    codes = ["0", *(str(code) for code, flag in _FLAGS.items() if getattr(style, flag))]
    codes += _codes_of(style.fg, 30) + _codes_of(style.bg, 40)
    return f"\x1b[{';'.join(codes)}m".encode()


def _number(text: str) -> int:
    """Return the value of a parameter; a missing one is 0. Long values are truncated; they have no meaning."""
    return int(text.lstrip("0")[:6] or 0)


def _without_space(arguments: str) -> list[str]:
    """Drop the colour space that ISO 8613-6 has before the values of a direct colour; most programs omit it."""
    values = arguments.split(":")
    return [values[0], *values[2:]] if values[0] == "2" and len(values) > 4 else values


def _colour(arguments: Iterator[str]) -> str | None:
    """Return the colour of 38 or 48 and consume its arguments."""
    kind = _number(next(arguments, ""))
    if kind == 5:
        return colour(_number(next(arguments, "")))
    if kind != 2:
        return None
    values = [_number(next(arguments, "")) for _ in range(3)]
    return "#{:02x}{:02x}{:02x}".format(*values) if max(values) < 256 else None


def colour(number: int) -> str | None:
    """Return the name of one of the 256 colours; the first 16 are those of 30 to 37 and 90 to 97."""
    if number < len(_COLOURS):
        return _COLOURS[number]
    return f"{_INDEXED}{number}" if number < 256 else None


def rgb(name: str) -> str | None:
    """Return a colour as `#rrggbb`, or None for the default colour."""
    if name == "default" or name.startswith("#"):
        return None if name == "default" else name
    number = int(name.removeprefix(_INDEXED)) if name.startswith(_INDEXED) else _NUMBERS[name]
    return f"#{bytes(palette(number)).hex()}"


def _codes_of(name: str, base: int) -> list[str]:
    if name == "default":
        return []
    if name.startswith("#"):
        return [str(base + 8), "2", *(str(int(name[begin : begin + 2], 16)) for begin in (1, 3, 5))]
    if name.startswith(_INDEXED):
        return [str(base + 8), "5", name.removeprefix(_INDEXED)]
    number = _NUMBERS[name]
    return [str(base + number if number < 8 else base + 60 + number - 8)]


#: By protection: the sequence that makes the pen protect what it draws (DECSCA; SPA).
PROTECT = {"": '\x1b["q', "selective": '\x1b[1"q', "guarded": "\x1bV"}

_ANSI = bytes.fromhex(
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)
_LEVELS = (0, 95, 135, 175, 215, 255)


def palette(number: int) -> tuple[int, ...]:
    """Return red, green and blue of one of the 256 colours of xterm: 16 named ones, a cube of side 6, 24 greys."""
    if number < 16:
        return tuple(_ANSI[3 * number : 3 * number + 3])
    if number < 232:
        number -= 16
        return _LEVELS[number // 36], _LEVELS[number // 6 % 6], _LEVELS[number % 6]
    return (8 + (number - 232) * 10,) * 3

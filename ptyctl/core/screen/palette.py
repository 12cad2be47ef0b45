"""xterm's palette: 16 colours, a cube of 6, 24 greys."""

from __future__ import annotations

_ANSI = bytes.fromhex(
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)
_LEVELS = (0, 95, 135, 175, 215, 255)


def palette(number: int) -> tuple[int, ...]:
    """Red, green and blue of one of the 256."""
    if number < 16:
        return tuple(_ANSI[3 * number : 3 * number + 3])
    if number < 232:
        number -= 16
        return _LEVELS[number // 36], _LEVELS[number // 6 % 6], _LEVELS[number % 6]
    return (8 + (number - 232) * 10,) * 3

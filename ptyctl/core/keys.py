"""Named keys and the bytes that they send: VT220 and xterm ("Control Sequences", PC-Style Function Keys)."""

from __future__ import annotations

import string

from ptyctl.api.errors import invalid

from .control_sequences import ESC

#: Keys without fixed bytes: Enter depends on the channel, BREAK is a signal of the line.
ENTER = "enter"
BREAK = "break"

_CURSOR = {"up": b"A", "down": b"B", "right": b"C", "left": b"D", "home": b"H", "end": b"F"}
_FIXED = {
    "tab": b"\t",
    "backspace": b"\x7f",
    "delete": ESC + b"[3~",
    "insert": ESC + b"[2~",
    "page_up": ESC + b"[5~",
    "page_down": ESC + b"[6~",
    "esc": ESC,
    "space": b" ",
    "ctrl_backslash": b"\x1c",
    "ctrl_right_bracket": b"\x1d",
    **{f"ctrl_{letter}": bytes([ord(letter) - 0x60]) for letter in string.ascii_lowercase},
    **{f"f{number}": ESC + b"O" + final for number, final in enumerate((b"P", b"Q", b"R", b"S"), 1)},
    **{f"f{number}": ESC + b"[%d~" % code for number, code in zip(range(5, 13), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)},
}
_ALIASES = {
    "return": ENTER,
    "escape": "esc",
    "del": "delete",
    "pageup": "page_up",
    "pagedown": "page_down",
    "pgup": "page_up",
    "pgdn": "page_down",
    "ctrl_\\": "ctrl_backslash",
    "ctrl_]": "ctrl_right_bracket",
    **{f"arrow_{name}": name for name in ("up", "down", "left", "right")},
}

KEYS = (ENTER, BREAK, *_CURSOR, *_FIXED)
#: Keys that are sent before the rest of a paste.
INTERRUPTS = frozenset({"ctrl_c", "ctrl_backslash", BREAK})


def key_name(key: str) -> str:
    """Return the canonical name of a key for any spelling: `ctrl+c`, `Ctrl-C`, `arrow-up`.

    Raises:
        PtyctlError: INVALID_ARGUMENT; the hint lists the names.
    """
    name = key.strip().lower().replace("+", "_").replace("-", "_").replace(" ", "_")
    name = _ALIASES.get(name, name)
    if name not in KEYS:
        raise invalid(
            f"key: unknown key {key!r}",
            hint=f"use enter, tab, esc, ctrl_a to ctrl_z, {', '.join(_CURSOR)}, page_up, page_down, backspace, delete, "
            "f1 to f12, ctrl_backslash or break; other input goes into data",
        )
    return name


def key_bytes(name: str, enter: bytes, application_cursor: bool) -> bytes:
    """Return the bytes of a key other than `break`; `application_cursor` is DECCKM."""
    if name == ENTER:
        return enter
    if name in _CURSOR:
        return ESC + (b"O" if application_cursor else b"[") + _CURSOR[name]
    return _FIXED[name]

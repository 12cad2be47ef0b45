"""Named keys and the bytes that they send: VT220 and xterm ("Control Sequences", PC-Style Function Keys).

The grammar of a name: modifiers, each followed by a separator, and one base key. It accepts the spellings of browsers
(`ArrowUp`, `Control+C`), tmux and emacs (`C-c`, `M-x`, `PPage`), vim (`<S-Tab>`), terminals (`^C`) and curses (`KEY_UP`).
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from ptyctl.api.errors import PtyctlError, invalid, shortened

from .control_sequences import ESC

#: Keys without fixed bytes: Enter depends on the channel, BREAK is a signal of the line.
ENTER = "enter"
BREAK = "break"

#: Final bytes of the keys that send CSI or SS3 and one letter, with modifiers `CSI 1 ; modifier letter`.
_CURSOR = {"up": b"A", "down": b"B", "right": b"C", "left": b"D", "home": b"H", "end": b"F"}
_SS3 = {f"f{number}": final for number, final in enumerate((b"P", b"Q", b"R", b"S"), 1)}
#: Numbers of the keys that send `CSI number ~`, with modifiers `CSI number ; modifier ~`.
_TILDE = {
    "insert": 2,
    "delete": 3,
    "page_up": 5,
    "page_down": 6,
    **{f"f{number}": code for number, code in zip(range(5, 13), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)},
}
_PLAIN = {"tab": b"\t", "backspace": b"\x7f", "esc": ESC, "space": b" "}
#: Characters with a name; with Ctrl, those that a terminal has as a control character.
_SYMBOLS = {"backslash": "\\", "right_bracket": "]", "left_bracket": "[", "caret": "^", "underscore": "_"}
_CTRL_SYMBOLS = {"\\": "ctrl_backslash", "]": "ctrl_right_bracket", "^": "ctrl_caret", "_": "ctrl_underscore"}
#: Other keys of a terminal that send the same byte as a named one.
_CTRL_SAME = {"[": "esc", "@": "ctrl_space", "?": "backspace", "/": "ctrl_underscore"}
_CTRL_BYTES = {
    "ctrl_space": b"\0",
    "ctrl_backslash": b"\x1c",
    "ctrl_right_bracket": b"\x1d",
    "ctrl_caret": b"\x1e",
    "ctrl_underscore": b"\x1f",
    **{f"ctrl_{letter}": bytes([ord(letter) - 0x60]) for letter in string.ascii_lowercase},
}

_BASES = (ENTER, BREAK, *_CURSOR, *_SS3, *_TILDE, *_PLAIN, *_SYMBOLS)
KEYS = (ENTER, BREAK, *_CURSOR, *_PLAIN, *_TILDE, *_SS3, *_CTRL_BYTES)
#: Keys that are sent before the rest of a paste.
INTERRUPTS = frozenset({"ctrl_c", "ctrl_backslash", BREAK})

#: Names of base keys without separators.
_SQUASHED = {
    **{name.replace("_", ""): name for name in _BASES},
    **dict.fromkeys(("return", "cr", "ret", "kpenter", "numpadenter"), ENTER),
    "escape": "esc",
    **dict.fromkeys(("del", "dc"), "delete"),
    **dict.fromkeys(("ins", "ic"), "insert"),
    **dict.fromkeys(("bspace", "bs", "bksp", "backsp"), "backspace"),
    **dict.fromkeys(("pgup", "ppage"), "page_up"),
    **dict.fromkeys(("pgdn", "pgdown", "npage"), "page_down"),
    **dict.fromkeys(("spc", "spacebar"), "space"),
    **dict.fromkeys(("backtab", "btab"), "shift_tab"),
    **{spelling: name for name in ("up", "down", "left", "right") for spelling in (f"arrow{name}", f"{name}arrow")},
    **{f"f({number})": f"f{number}" for number in range(1, 13)},
    **{f"key{letter}": letter for letter in string.ascii_lowercase},
    **{f"digit{digit}": digit for digit in string.digits},
}
_MODIFIERS = {
    **dict.fromkeys(("ctrl", "control", "ctl", "c"), "ctrl"),
    **dict.fromkeys(("alt", "meta", "option", "opt", "m", "a"), "alt"),
    **dict.fromkeys(("shift", "s"), "shift"),
}
#: A modifier with its separator. tmux and emacs write one letter and a hyphen.
_MODIFIER = re.compile(r"(?i:(ctrl|control|ctl|alt|meta|option|opt|shift)(?: ?[-+_] ?| ))(?=.)|([CMSAcmsa])-(?=.)", re.DOTALL)
#: A modifier without a separator: `CtrlC`, `ShiftTab`.
_JOINED = re.compile(r"(?i)(ctrl|control|alt|meta|shift)([a-z0-9]+)")
_SEPARATOR = re.compile(r"[-+_ ]")
_BRACKETS = {"<": ">", "{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class _Key:
    """A key with its modifiers. `base` is a name of `_BASES`, or a character."""

    base: str
    ctrl: bool = False
    alt: bool = False
    shift: bool = False

    @property
    def name(self) -> str:
        """The canonical name; None of its parts is in another order or spelling."""
        modifiers = (("ctrl", self.ctrl), ("alt", self.alt), ("shift", self.shift))
        return "_".join([*(name for name, is_set in modifiers if is_set), self.base])

    @property
    def modifier(self) -> int:
        """The parameter of xterm for the modifiers; 1 if there is none."""
        return 1 + self.shift + 2 * self.alt + 4 * self.ctrl


def key_name(key: str) -> str:
    """Return the canonical name of a key for any spelling: `ctrl+c`, `C-c`, `^C`, `ArrowUp`, `<S-Tab>`.

    Raises:
        PtyctlError: INVALID_ARGUMENT; the hint has similar names, or lists the names.
    """
    parsed = _parse(key)
    if parsed is None:
        raise _unknown(key)
    return parsed.name


def key_bytes(name: str, enter: bytes, application_cursor: bool) -> bytes:
    """Return the bytes of a key other than `break`; `application_cursor` is DECCKM."""
    key = _parse(name)
    if key is None:
        raise _unknown(name)
    if key.base in _CURSOR and key.modifier == 1:
        return ESC + (b"O" if application_cursor else b"[") + _CURSOR[key.base]
    if key.base in _SS3 and key.modifier == 1:
        return ESC + b"O" + _SS3[key.base]
    if (final := (_CURSOR | _SS3).get(key.base)) is not None:
        return ESC + b"[1;%d%c" % (key.modifier, final)
    if (code := _TILDE.get(key.base)) is not None:
        return ESC + (b"[%d~" % code if key.modifier == 1 else b"[%d;%d~" % (code, key.modifier))
    if key.base == "tab" and key.shift:
        return ESC + b"[Z"
    return (ESC if key.alt else b"") + _unmodified_bytes(key, enter)


def _unmodified_bytes(key: _Key, enter: bytes) -> bytes:
    """Return the bytes of a key that Alt precedes with ESC."""
    if key.ctrl:
        return _CTRL_BYTES[f"ctrl_{key.base}"]
    if key.base == ENTER:
        return enter
    if key.base in _PLAIN:
        return _PLAIN[key.base]
    return (key.base.upper() if key.shift else key.base).encode()


@lru_cache(maxsize=256)
def _parse(text: str) -> _Key | None:
    """Return the key of a name; None if there is no such key."""
    if len(text) == 1:
        return _of_character(text)
    text = text.strip()
    if len(text) > 2 and _BRACKETS.get(text[0]) == text[-1]:
        text = text[1:-1].strip()
    text = text.removeprefix("\\") if text[:3] in ("\\C-", "\\M-") else text
    if len(text) == 2 and text[0] == "^":
        return _modified(text[1].lower(), {"ctrl"})
    modifiers, rest = _split(text)
    return _modified(rest, modifiers)


def _split(text: str) -> tuple[set[str], str]:
    """Return the modifiers at the start of a name, and the rest."""
    modifiers = set[str]()
    while (found := _MODIFIER.match(text)) is not None:
        word, letter = found.groups()
        modifiers.add(_MODIFIERS[(word or letter).lower()])
        text = text[found.end() :]
        if len(text) == 1 and text.isupper():  # Ctrl-C and Alt+X name keys as keyboards do, M-X has Shift
            modifiers |= {"shift"} if letter is not None and letter in "MAma" else set()
            text = text.lower()
    return modifiers, text


def _of_character(character: str) -> _Key | None:
    """Return the key of a character, as browsers name it. A control character is the key that sends it."""
    named = {"\r": ENTER, "\n": ENTER, **{data.decode(): name for name, data in _PLAIN.items()}}
    if character in named:
        return _Key(named[character])
    if character < " ":
        return _modified(chr(ord(character) + 0x40).lower(), {"ctrl"})
    return _Key(character) if character.isprintable() else None


def _modified(base: str, modifiers: set[str]) -> _Key | None:
    """Return a base key in any spelling with modifiers; None if a terminal has no such key."""
    if len(base) != 1:
        name = _named(base)
        if name is None:
            found = _JOINED.fullmatch(base)
            name = None if found is None else _named(found[2]) or (found[2] if found[1].lower() in ("ctrl", "control") else "")
            if found is None or not name or (len(name) == 1 and not name.isalpha()):
                return None
            return _modified(name.lower(), modifiers | {_MODIFIERS[found[1].lower()]})
        if name == "shift_tab":
            name, modifiers = "tab", modifiers | {"shift"}
        base = _SYMBOLS.get(name, name)
    elif base == " ":
        base = "space"
    ctrl, alt, shift = ("ctrl" in modifiers, "alt" in modifiers, "shift" in modifiers)
    if base in _CURSOR or base in _SS3 or base in _TILDE:
        return _Key(base, ctrl, alt, shift)
    if ctrl:
        return _with_ctrl(base, alt=alt, shift=shift)
    if shift and not (base == "tab" and not alt) and not (len(base) == 1 and base in string.ascii_letters):
        return None
    if base == BREAK and alt:
        return None
    if shift and not alt and len(base) == 1:
        return _Key(base.upper())
    if len(base) == 1 and not base.isprintable():
        return None
    return _Key(base, alt=alt, shift=shift)


def _with_ctrl(base: str, *, alt: bool, shift: bool) -> _Key | None:
    """Return the key of a control character; Shift makes no difference with a letter."""
    base = base.lower() if len(base) == 1 else base
    name = _CTRL_SAME.get(base) or _CTRL_SYMBOLS.get(base) or f"ctrl_{base}"
    if name in _PLAIN:
        return _Key(name, alt=alt)
    if name not in _CTRL_BYTES or (shift and base not in string.ascii_lowercase):
        return None
    return _Key(name.removeprefix("ctrl_"), ctrl=True, alt=alt)


def _named(base: str) -> str | None:
    """Return the name of a base key of several characters; None if there is none."""
    squashed = _SEPARATOR.sub("", base).lower()
    return _SQUASHED.get(squashed) or _SQUASHED.get(squashed.removeprefix("key"))


def _unknown(key: str) -> PtyctlError:
    modifiers, base = _split(key.strip().strip("<>{}[]"))
    squashed = _SEPARATOR.sub("", base).lower()
    if _named(base) is not None or len(base) == 1:
        names = [f"{modifier}_{base.lower()}" for modifier in ("ctrl", "alt", "shift")]
        similar = [name for name in names if (parsed := _parse(name)) is not None and parsed.name != BREAK]
        similar = [name for name in similar if name.partition("_")[0] in modifiers] or [_named(base) or base]
    else:
        prefix = "".join(f"{name}_" for name in ("ctrl", "alt", "shift") if name in modifiers)
        close = dict.fromkeys(_SQUASHED[name] for name in get_close_matches(squashed, _SQUASHED, n=3, cutoff=0.7))
        similar = [name for found in close if (parsed := _parse(prefix + found)) is not None for name in (parsed.name,)]
    question = f"did you mean {' or '.join(similar)}? " if similar else ""
    return invalid(
        f"key: unknown key {shortened(key, 64)!r}",
        hint=f"{question}use enter, tab, esc, ctrl_a to ctrl_z, {', '.join(_CURSOR)}, page_up, page_down, backspace, delete, "
        "f1 to f12, ctrl_backslash or break, with ctrl_, alt_ and shift_ as a terminal has them, or one character; "
        "other input goes into data",
    )

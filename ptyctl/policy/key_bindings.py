"""Key bindings that a shell reports of its line editor: vi mode, and keys that submit a line which is not shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: A key of bash (`"\C-o"`) or zsh (`"^O"`) in quotes, and its binding.
_BINDING = re.compile(r'(?:bindkey -s )?"((?:[^"\\]|\\.)+)"(?::|) "((?:[^"\\]|\\.)*)"', re.DOTALL)
_NOTATION = re.compile(
    r"\\M-\\C-(.)|\\C-\\M-(.)|\\M-\^(.)|\\C-(.)|\\M-(.)|\^(.)|\\([0-7]{1,3})|\\x([0-9a-fA-F]{1,2})|\\(.)", re.DOTALL
)
_NAMES = {"a": "\a", "b": "\b", "d": "\x7f", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
#: The bytes of a key that are compared; of a longer one, its last ones.
MAX_KEY = 16
_ENTER = re.compile(r"[\r\n]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Macro(NamedTuple):
    """What a key submits.

    Attributes:
        text: a line after the pending one, or a command; None if it is not known.
        is_command: whether the shell runs the text in place of the pending line.
    """

    text: str | None
    is_command: bool = False


@dataclass(frozen=True)
class KeyBindings:
    """The bindings of one shell.

    Attributes:
        is_vi: whether the editor has the command mode of vi; None if that is not known.
        macros: what keys submit, by their bytes.
        is_complete: whether no other key can be a macro: the report was neither cut nor damaged.
        may_have_macro: whether a key may be a macro.
    """

    is_vi: bool | None = None
    macros: Mapping[bytes, Macro] = field(default_factory=dict)
    is_complete: bool = True
    may_have_macro: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "may_have_macro", bool(self.macros) or not self.is_complete)

    def with_report(self, newer: KeyBindings) -> KeyBindings:
        """Return the bindings of a newer report with the earlier macros. What a key with two of them submits is not known.

        Keys that are missing in a report stay unknown.
        """
        macros = dict(self.macros)
        for key, macro in newer.macros.items():
            macros[key] = macro if macros.get(key, macro) == macro else Macro(None)
        return KeyBindings(newer.is_vi, macros, self.is_complete and newer.is_complete)


def read_bindings(report: str | None) -> KeyBindings:
    """Return the bindings in the report of a prompt mark; None if the shell does not report them.

    The first line is `vi` or empty. Each other line is a binding as bash or zsh prints it, after `s` for a macro, or `x` for a
    command of the shell, or `!` for bindings that are missing.
    """
    if report is None:
        return KeyBindings()
    mode, *lines = report.split("\n")
    macros: dict[bytes, Macro] = {}
    is_complete = True
    for line in lines:
        found = _BINDING.search(line, 1)
        if found is None or line[:1] not in "sx":
            is_complete = False
            continue
        keys, text = _decode(found[1]), _decode(found[2]) if line[:1] == "s" else found[2]
        macro = Macro(text, is_command=True) if line[:1] == "x" else _macro(keys, text)
        key = keys.encode("utf-8", "surrogateescape")
        is_certain = len(key) <= MAX_KEY and macros.get(key, macro) == macro  # keymaps may share a binding
        macros[key[-MAX_KEY:]] = macro if is_certain else Macro(None)
    return KeyBindings(mode == "vi", macros, is_complete)


def _macro(keys: str, text: str) -> Macro:
    line, enter, _ = re.split(r"([\r\n])", text, maxsplit=1) if _ENTER.search(text) else (text, "", "")
    is_known = enter != "" and _CONTROL.search(text.rstrip("\r\n")) is None
    return Macro(line if is_known and keys[:1] < " " else None)


def _decode(text: str) -> str:
    """Return the characters of a text in the notation of bash or zsh. A key with Meta is sent after Escape."""
    return _NOTATION.sub(_decode_one, text)


def _decode_one(match: re.Match[str]) -> str:
    meta_control, control_meta, meta_caret, control, meta, caret, octal, hexadecimal, named = match.groups()
    if key := meta_control or control_meta or meta_caret:
        return "\x1b" + _control(key)
    if meta:
        return "\x1b" + meta
    if key := control or caret:
        return _control(key)
    if octal or hexadecimal:
        return chr(int(octal, 8) & 0xFF if octal else int(hexadecimal, 16))
    return _NAMES.get(named, named)


def _control(key: str) -> str:
    return "\x7f" if key == "?" else chr(ord(key.upper()) & 0x1F)

"""Whether a command line puts another shell in front: one that does not announce its commands, or the one before."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Literal

from .marker import answering_program, shell_dialect

#: `maybe` is what runs elsewhere: a shell there, or a single command.
Change = Literal["no", "maybe", "yes"]

_SEPARATORS = frozenset(";&|()")
#: Words behind which a command follows.
_BEFORE_A_COMMAND = frozenset(
    [
        "{",
        "!",
        "if",
        "then",
        "elif",
        "else",
        "while",
        "until",
        "do",
        "time",
        "exec",
        "command",
        "builtin",
        "env",
        "nohup",
        "nice",
    ]
)
#: Their options that take a value, and those of `command` that run nothing.
_VALUES = frozenset(("-a", "-C", "-n", "-u"))
_TELLING = frozenset(("-v", "-V"))
_LEAVING = frozenset(("exit", "logout"))
_OWN_SHELL = frozenset(("su", "chroot", "nsenter", "unshare", "newgrp", "login", "machinectl", "systemd-nspawn"))
_ELSEWHERE = frozenset(["ssh", "slogin", "mosh", "telnet", "rlogin", "docker", "podman", "kubectl", "lxc", "incus"])
_ROOT = frozenset(("sudo", "doas"))
#: Options of sudo(8) that take a value, and those that ask for a shell.
_ROOT_VALUES = "ugpCcDRrThtU"
_ROOT_SHELL = "is"


def shell_change(command: str) -> Change:
    """`yes`: a prompt of any kind behind it is a shell's. Quotes that are not closed say `no`."""
    lexer = shlex.shlex(command.replace("\n", ";"), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return "no"
    if words and words[0] in _LEAVING:  # not in a subshell, or where something failed
        return "yes"
    found = [_of_simple(part) for part in _parts(words)]
    return "yes" if "yes" in found else "maybe" if "maybe" in found else "no"


def _parts(words: Sequence[str]) -> list[list[str]]:
    """The simple commands of a list, each without what may stand before its name."""
    parts: list[list[str]] = [[]]
    before = ""
    for word in words:
        if word[0] in _SEPARATORS if word else False:
            parts.append([])
        elif parts[-1] or not (word in _BEFORE_A_COMMAND or "=" in word or _is_option(word) or before in _VALUES):
            parts[-1].append(word)
        before = word
    return [part for part in parts if part]


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in _TELLING


def _of_simple(words: Sequence[str]) -> Change:
    name, arguments = words[0].rpartition("/")[2], words[1:]
    if name in _ROOT:
        return _of_root(arguments)
    if name in _ELSEWHERE:
        return "maybe"
    if name == "su" and any(word in ("-c", "--command") for word in arguments):
        return "no"
    is_shell = shell_dialect(answering_program(words)) is not None
    return "yes" if name in _OWN_SHELL or is_shell else "no"


def _of_root(arguments: Sequence[str]) -> Change:
    """sudo: a shell of its own where one is asked for and no command follows, else what the command is."""
    asked, rest = False, list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        option = rest.pop(0)
        if option.startswith("--"):
            asked = asked or option in ("--login", "--shell")
            continue
        flags = option[1:]
        value = next((at for at, flag in enumerate(flags) if flag in _ROOT_VALUES), None)
        asked = asked or any(flag in _ROOT_SHELL for flag in flags[:value])
        if value == len(flags) - 1 and rest:
            rest.pop(0)
    parts = _parts([word for word in rest if word != "--"])
    return _of_simple(parts[0]) if parts else "yes" if asked else "no"

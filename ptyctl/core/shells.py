"""Recognition of shells: the program that a command line starts, its dialect, and whether it starts another shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

Dialect = Literal["posix", "zsh", "fish"]
#: `maybe`: the command runs on another host or in a container, as a shell or as a single command.
ShellChange = Literal["no", "maybe", "yes"]

_SHELLS: dict[str, Dialect] = {
    **dict.fromkeys(("sh", "bash", "dash", "ash", "ksh", "mksh", "busybox"), "posix"),
    "zsh": "zsh",
    "fish": "fish",
}
#: Shells whose grammar is not that of a dialect: ptyctl types commands in none of them.
_OTHER_SHELLS = frozenset(("csh", "tcsh", "nu", "xonsh", "pwsh", "powershell", "elvish", "rc", "es"))
_SHELL_OPTIONS_WITH_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})

#: Options that neither name a file nor hold a command.
_PLAIN_OPTIONS = frozenset("-i -l -il -li -f -N --login --norc --noprofile --no-rcs --private --no-config".split())  # noqa: SIM905

_SEPARATORS = frozenset(";&|()")
#: Words that are followed by a command.
_COMMAND_PREFIXES = frozenset(("{", "!", "if", "then", "elif", "else", "while", "until", "do", "time")) | frozenset(
    ("exec", "command", "builtin", "env", "nohup", "nice")
)
#: Options of these that take a value, and the options of `command` that run nothing.
_PREFIX_OPTIONS_WITH_VALUE = frozenset(("-a", "-C", "-n", "-u"))
_LOOKUP_OPTIONS = frozenset(("-v", "-V"))
_EXIT_COMMANDS = frozenset(("exit", "logout"))
#: Words after which a shell may have ended, wherever they are in a text.
_ENDING_WORDS = re.compile(
    r"(?<![\w./-])(?:exit|logout|quit|bye|exec|kill|pkill|killall|suspend|disown|reboot|shutdown)(?![\w./-])"
)
_READING_COMMANDS = frozenset(("read", "vared", "select"))
#: Builtins that start no program and read nothing from the terminal.
_SETTING_COMMANDS = (
    frozenset(("unset", "export", "declare", "typeset", "readonly", "set", "shopt", "setopt", "unsetopt", "alias", "unalias"))
    | frozenset(("trap", "cd", ":", "true", "false", "enable", "disable", "bind", "bindkey", "emulate", "autoload"))
    | frozenset(("add-zsh-hook",))
)
#: A word that no shell changes, and the parts of another one that are quoted in different ways.
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@+:,./-]+")
_PARTS_OF_WORD = re.compile(r"[\\']|[^\\']+")
#: A redirection, whose target follows.
_REDIRECTION = re.compile(r"&?[<>]+[&|-]?")
_SUBSTITUTIONS = ("$(", "`")
_SHELL_STARTERS = frozenset(("su", "chroot", "nsenter", "unshare", "newgrp", "login", "machinectl", "systemd-nspawn"))
_REMOTE_COMMANDS = frozenset(("ssh", "slogin", "mosh", "telnet", "rlogin", "docker", "podman", "kubectl", "lxc", "incus"))
_SUDO_COMMANDS = frozenset(("sudo", "doas"))
#: Short options of sudo(8) that take a value, and those that request a shell.
_SUDO_OPTIONS_WITH_VALUE = "ugpCcDRrThtU"
_SUDO_SHELL_OPTIONS = "is"


@lru_cache(maxsize=64)  # each command asks about the same few programs
def shell_dialect(program: str) -> Dialect | None:
    """Return the dialect of the shell at this path, or None if it is not a known shell."""
    return _SHELLS.get(program.rpartition("/")[2].lstrip("-"))


def has_other_grammar(program: str) -> bool:
    """Return whether the program at this path is a shell that reads text otherwise than any dialect."""
    return program.rpartition("/")[2].lstrip("-") in _OTHER_SHELLS


def may_run_shell(program: str) -> bool:
    """Return whether a program is a shell, or one that runs a shell elsewhere or as another user."""
    name = program.rpartition("/")[2]
    return shell_dialect(name) is not None or name in _SHELL_STARTERS | _REMOTE_COMMANDS | _SUDO_COMMANDS


def answering_program(argv: Sequence[str]) -> str:
    """Return the program that reads the terminal.

    For `sh -c script` it is the first program of the script, for a shell with a script file that file, for busybox its applet.
    """
    name, *arguments = argv
    if name.rpartition("/")[2] == "busybox" and arguments:
        return answering_program(arguments)
    if shell_dialect(name) is None:
        return name
    options = iter(arguments)
    for option in options:
        if option in _SHELL_OPTIONS_WITH_VALUE:
            next(options, None)
        elif option[:1] not in ("-", "+"):
            return option
        elif "c" in option and not option.startswith("--"):
            words = next(options, "").removeprefix("exec ").split()
            return answering_program(words) if words else name
    return name


def is_plain_shell(argv: Sequence[str]) -> bool:
    """Return whether a command starts an installed shell that reads the terminal, with no script or start-up file named."""
    folder, _, name = argv[0].rpartition("/") if argv else ("", "", "")
    is_installed = folder in ("", "/bin", "/usr/bin", "/usr/local/bin")
    return is_installed and name != "busybox" and shell_dialect(name) is not None and _PLAIN_OPTIONS.issuperset(argv[1:])


def shell_change(command: str) -> ShellChange:
    """Return `yes`, `maybe` or `no`: whether a command line starts another shell or leaves the current one.

    After `yes`, callers accept any shell's prompt. A command with unbalanced quotes returns `no`.
    """
    words = _words(command)
    if words and words[0] in _EXIT_COMMANDS:  # only as the first word: not in a subshell, not after a failure
        return "yes"
    changes = [_simple_command_change(part) for part in _simple_commands(words)]
    return "yes" if "yes" in changes else "maybe" if "maybe" in changes else "no"


def may_end_shell(text: str) -> bool:
    """Return whether a text has a word with which a shell, or a program that relays one, is ended."""
    return _ENDING_WORDS.search(text) is not None


def reads_lines(command: str) -> bool:
    """Return whether a command line reads from the terminal in the shell itself, so that its prompt may be any text."""
    return any(part[0] in _READING_COMMANDS for part in _simple_commands(_words(command)))


def only_sets_up(command: str) -> bool:
    """Return whether a command line only changes the shell's state (`unset x; PS1='> '`), so that the prompt follows."""
    words = _words(command)
    if not words or any(text in command for text in _SUBSTITUTIONS):
        return False
    return all(part[0] in _SETTING_COMMANDS for part in _simple_commands(words))


def quote_word(word: str) -> str:
    """Return a word in quotes that bash, zsh, fish, dash, ksh, mksh and busybox read alike.

    Backslashes and single quotes are escaped outside the quotes: fish also escapes them within. zsh expands a plain `=ls`.
    """
    if _PLAIN_WORD.fullmatch(word):
        return word
    return "".join(f"\\{part}" if part in "\\'" else f"'{part}'" for part in _PARTS_OF_WORD.findall(word)) or "''"


def quote_words(words: Iterable[str]) -> str:
    """Return words as a command line that each shell reads alike."""
    return " ".join(map(quote_word, words))


def _words(command: str) -> list[str]:
    """Return the words and separators, without redirections; none if quotes are unbalanced."""
    lexer = shlex.shlex(command.replace("\n", ";"), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError:
        return []
    words: list[str] = []
    is_target = False
    for token in tokens:
        if _REDIRECTION.fullmatch(token):
            if words and words[-1].isdigit():
                words.pop()
            is_target = True
            continue
        if not is_target or token[:1] in _SEPARATORS:  # without a target, the operator was quoted
            words.append(token)
        is_target = False
    return words


def _simple_commands(words: Sequence[str]) -> list[list[str]]:
    """Split a list into simple commands and drop the words that precede each command name."""
    parts: list[list[str]] = [[]]
    before = ""
    for word in words:
        if word[0] in _SEPARATORS if word else False:
            parts.append([])
        elif parts[-1] or not (
            word in _COMMAND_PREFIXES or "=" in word or _is_option(word) or before in _PREFIX_OPTIONS_WITH_VALUE
        ):
            parts[-1].append(word)
        before = word
    return [part for part in parts if part]


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in _LOOKUP_OPTIONS


def _simple_command_change(words: Sequence[str]) -> ShellChange:
    name, arguments = words[0].rpartition("/")[2], words[1:]
    if name in _SUDO_COMMANDS:
        return _sudo_change(arguments)
    if name in _REMOTE_COMMANDS:
        return "maybe"
    if name == "su" and (option := next((word for word in arguments if word in ("-c", "--command")), None)) is not None:
        return shell_change(" ".join(arguments[arguments.index(option) + 1 :][:1]))
    is_shell = shell_dialect(answering_program(words)) is not None
    return "yes" if name in _SHELL_STARTERS or is_shell else "no"


def _sudo_change(arguments: Sequence[str]) -> ShellChange:
    """Return the change made by the command that sudo runs; `yes` if it runs a shell because no command is given."""
    wants_shell, rest = False, list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        option = rest.pop(0)
        if option.startswith("--"):
            wants_shell = wants_shell or option in ("--login", "--shell")
            continue
        flags = option[1:]
        value = next((at for at, flag in enumerate(flags) if flag in _SUDO_OPTIONS_WITH_VALUE), None)
        wants_shell = wants_shell or any(flag in _SUDO_SHELL_OPTIONS for flag in flags[:value])
        if value == len(flags) - 1 and rest:
            rest.pop(0)
    parts = _simple_commands([word for word in rest if word != "--"])
    return _simple_command_change(parts[0]) if parts else "yes" if wants_shell else "no"

"""Command markers: wrap a command between two printf commands that report its start and end.

The typed line contains the marker only in parts, so its echo never matches. `Marker` prints the OSC sequence of `marks.py`,
which terminals do not display and the spool does not contain. `AsciiMarker` prints text, for paths that filter the OSC
sequence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .control_sequences import PASTE_BEGIN, PASTE_END
from .marks import OSC_NUMBER
from .shells import Dialect

#: The shell function that prints a mark; it exists in the memory of the shell only.
FUNCTION = "__ptyctl"
#: The shell variable with the word that comes before `eval`; the function sets it each time, and hooks that send marks do.
_BEFORE_EVAL = f"{FUNCTION}_by"
#: Expansion of that variable: no word if it is empty, otherwise one regardless of IFS. No alias replaces the word after it.
BEFORE_BUILTIN = f'${{{_BEFORE_EVAL}:+"${_BEFORE_EVAL}"}}'
#: The words that evaluate a text. fish allows no function `eval`.
EVALUATE = f"{BEFORE_BUILTIN} eval"
#: First step of the function: choose a word that bypasses the user's functions, which may have the name of a builtin; `:` if
#: there is none. `command` also prevents that an error in a special builtin ends the line. bash reports functions (`declare`
#: sets no attribute here). In other POSIX shells only the builtin `command` finds `:` and does not find a missing file, and
#: eval is a special builtin, which no function replaces (POSIX 2.9.1.4). `@` denotes the variable `_BEFORE_EVAL`.
_CHOOSE: dict[Dialect, str] = {
    "posix": (
        r"case ${BASH_VERSION-} in ?*)@=command;\declare -f +i command&&{ @=builtin;\declare -f +i builtin&&{ @=;"
        r"\declare -f +i eval&&@=:;};};;*)@=;{ \command -v :&&{ \command -v /:||@=command;};}<>/dev/null >&0 2>&0;;esac"
    ),
    "zsh": "@=builtin;((${+functions[builtin]}))&&{ @=;((${+functions[eval]}))&&@=:;}",
}
#: Removes, in a subshell, the function that prevents `_CHOOSE` from finding a word. bash in POSIX mode finds unset before it.
_REMOVE: dict[Dialect, str] = {"posix": r"POSIXLY_CORRECT=;\unset -f command", "zsh": r"\unset -f builtin"}
#: printf in a subshell, where a function of that name can be removed. zsh reports an error if there is none.
_SUBSHELL_PRINTF: dict[Dialect, str] = {
    "posix": r"POSIXLY_CORRECT=;\unset -f printf;\printf",
    "zsh": r"[[ -z ${functions[printf]-} ]]||\unset -f printf;\printf",
}
#: Ends the history of ksh and mksh: they would record each marker line, whatever it begins with. Nothing in other shells.
_WITHOUT_HISTORY = "${KSH_VERSION+typeset HISTFILE=/dev/null}"
#: The key with which fish checks a pasted command, see fish.fish.
FISH_CHECK_KEY = "\x1b[7717~"
#: The key with which fish clears its line and sends a prompt mark, see fish.fish.
FISH_CLEAR_KEY = b"\x1b[7718~"
#: The start of fish's message for a line that it cannot run.
FISH_ERROR_PREFIX = "fish: "
#: Appended to a command, so that a failure keeps its status and neither ends a shell under `set -e` nor runs a trap.
_AND_ON = "&&:"
#: Characters that a terminal or a line editor interprets even in quotes, and bytes that are not UTF-8 (as surrogates, PEP 383).
_ACTED_UPON = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\udc80-\udcff]")
#: Characters that a printf format in single quotes cannot contain; `!` because bash expands history in double quotes.
_NOT_IN_A_FORMAT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\udc80-\udcff'\\%!]|^-")
#: The same for a format in one row, which may contain other control characters.
_NOT_IN_A_ROW = re.compile(r"[\n'\\%!]")
#: A terminal in canonical mode truncates a line at 4095 bytes (Linux termios(3)), the editor of busybox at 1024. A longer
#: command is typed in several lines of 150 characters, of up to four bytes each; quotes are closed and reopened between them.
_LONG_LINE = re.compile(r"((?:'\\''|[^'\n]){150})(?=[^\n])")

#: The end of the function, before which its definition is typed in two rows if the first row would be too long.
_RETURN = 'return "$3";'
_ROW_BYTES = 1000

#: A plain command: words, also quoted ones, and redirections, in pipelines and lists.
_VARIABLE = r"\$(?:\w+|\?)"
_WORD = rf"""(?:[\w./:@%+,~-]|=(?=[\w$])|{_VARIABLE}|'[^'!\x00-\x1f\x7f\\]*'|"(?:[^"!`$\x00-\x1f\x7f\\]|{_VARIABLE})*")+"""
_NEXT = rf"(?:(?:\d?(?:>>|[<>]) ?)?{_WORD}|\d?>&\d)"
_PLAIN = re.compile(rf"{_WORD}(?: +(?:(?:\|\||&&|[|;&]) +)?{_NEXT}|; +{_WORD})*(?: &)?")
#: A command that names or starts a job. zsh counts an eval as a job, so that the first job in it would have the number 2.
_USES_JOB = re.compile(r"(?:^| )(?:%|&(?!&))")
#: Reserved words, after which a command may be incomplete.
_RESERVED = re.compile(
    r"(?:^|[ ;|&])(?:if|then|elif|else|fi|for|foreach|do|done|while|until|repeat|case|esac|select|switch|function|coproc|time|"
    r"begin|end|and|or|not|nocorrect|noglob)(?:$|[ ;])"
)
_PLAIN_LIMIT = 1000
#: Size of one paste in zsh: at most 4 KB of UTF-8, which fits one write to a terminal, and usually one SSH packet.
_ZSH_PASTE_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Marker:
    """Wraps commands for one shell. `nonce` identifies the marks of the session."""

    nonce: str
    dialect: Dialect = "posix"

    def line(self, command: str, counter: int, *, define: bool = True, defined_at: int | None = None) -> str:
        """Return one logical line that runs `command` between a begin mark (`counter`) and an end mark (`counter` + 1).

        `define` includes the definition of the function that prints a mark. The shell keeps the function, so that later lines
        can omit it and are echoed in a third of the time. With `defined_at`, the counter of the line that has defined it, any
        other shell refuses the line (`refusal`): the variable that the definition sets is missing there, and fish does not know
        the syntax. `$?` is preserved for the command and after it. The leading blank
        keeps the line out of the history of shells that are configured so (HISTCONTROL, HIST_IGNORE_SPACE).
        """
        is_bound = not define and defined_at is not None and self.dialect != "fish"
        begin, separator = f"{FUNCTION} {counter}{f'${{{FUNCTION}_{defined_at}?}}' if is_bound else ''} B ", ";"
        previous = self._status
        if define:  # defining a function sets the status, so the previous one is expanded first
            if self.dialect == "fish":
                begin = f"eval {self._quote(f'{self._definition()};{begin}')}"
            else:
                history = "" if self.dialect == "zsh" else f"{_WITHOUT_HISTORY};"
                begin = f"{_BEFORE_EVAL}=$?;{history}{self._definition()};{FUNCTION}_{counter}=;{begin}"
                previous = f'"${_BEFORE_EVAL}"{_AND_ON}'
        evaluated = self.eval_command(command)
        if self.dialect == "zsh" and _USES_JOB.search(command) and is_typable(command):
            evaluated, separator = command, "" if command.endswith("&") else ";"
        line = f" {begin}{previous};{evaluated}{separator}{self.end_line(counter + 1).lstrip()}"
        return line.replace(_RETURN, f"\n{_RETURN}", 1) if define and _first_row_bytes(line) > _ROW_BYTES else line

    @staticmethod
    def refusal(defined_at: int) -> bytes:
        """Return what the message of a shell contains that refuses a line of another shell."""
        return f"{FUNCTION}_{defined_at}: ".encode()

    def end_line(self, counter: int) -> str:
        """Return a line that prints an end mark with the status of the previous command, and keeps that status."""
        return f" {FUNCTION} {counter} E {self._status}"

    @property
    def _status(self) -> str:
        return "$status" if self.dialect == "fish" else f'"$?"{_AND_ON}'

    def _definition(self) -> str:
        return self._function(f"'\\033]{OSC_NUMBER.decode()};{self.nonce};%s;%s;%s\\007'")

    def _function(self, format_: str, more: str = "") -> str:
        """Return the definition of the function, which prints the arguments counter, kind and status, and returns the status.

        In a shell that cannot evaluate the command, it prints an end mark in place of the begin mark. Without a word that
        bypasses functions, it calls itself in a subshell without one of them; a fourth argument stops the recursion.
        """
        if self.dialect == "fish":
            return f"function {FUNCTION};builtin printf {format_} $argv{more};return $argv[3];end"
        choose, remove = _CHOOSE[self.dialect].replace("@", _BEFORE_EVAL), _REMOVE[self.dialect]
        printed = f'"${_BEFORE_EVAL}" printf {format_} "$1" "$2" "$3"{more}'
        refused, again = (f'({remove};{FUNCTION} "$1" {kind} "$3" x)' for kind in ("E", '"$2"'))
        print_ = f"case ${_BEFORE_EVAL}$2${{4-}} in [bc]*){printed};;*x);;:B){refused};;*){again};;esac"
        return f"{FUNCTION}(){{ {choose};{print_};{_RETURN}}}"

    def eval_command(self, command: str) -> str:
        """Return a line that evaluates a command of any number of lines, with control characters escaped.

        The marker line or the hooks have chosen the word before eval.
        """
        command = command.replace("\r\n", "\n")
        if self.dialect == "fish":
            return f"eval {self._quote(command)}"
        if not _ACTED_UPON.search(command):
            return f"{EVALUATE} {self._quote(command)}"
        format_ = _NOT_IN_A_FORMAT.sub(_in_octal, command)
        return f'{EVALUATE} "(exit $?){_AND_ON};{self._printed(self._quote(format_))}"'  # printf sets the status

    def as_word(self, text: str) -> str:
        """Return one word, in one row, that expands to a text of any number of lines. Not for fish."""
        printed = self._printed("'" + _NOT_IN_A_ROW.sub(_in_octal, text) + "'")
        return f'"{printed}"'

    def _printed(self, format_: str) -> str:
        return f"$({_SUBSHELL_PRINTF[self.dialect]} {format_})"

    def _quote(self, text: str) -> str:
        if self.dialect == "fish":
            quoted = text.replace("\\", "\\\\").replace("'", "\\'")
            return "'" + _ACTED_UPON.sub(lambda found: f"'\\X{ord(found[0]) & 0xFF:02x}'", quoted) + "'"
        return "'" + _LONG_LINE.sub("\\1'\\\n'", text.replace("'", "'\\''")) + "'"


@dataclass(frozen=True, slots=True)
class AsciiMarker(Marker):
    """A marker as text, `prefix nonce;counter;kind;status suffix`, which is found by a search in the output."""

    prefix: str = "__PTYCTL_"
    suffix: str = "__"

    def start(self, kind: Literal["B", "E"], counter: int) -> bytes:
        """Return the text of a mark up to its status."""
        return f"{self.prefix}{self.nonce};{counter};{kind};".encode()

    def pattern(self, kind: Literal["B", "E"], counter: int) -> str:
        """Return an RE2 pattern for a mark; its first group is the status."""
        return f"{_literal(self.prefix)}{self.nonce};{counter};{kind};(\\d+){_literal(self.suffix)}"

    def _definition(self) -> str:
        format_ = f"'%s%s;%s;%s;%s%s' {self._quote(self.prefix)} {self.nonce}"
        return self._function(format_, f" {self._quote(self.suffix)}")


def _in_octal(found: re.Match[str]) -> str:
    return f"\\{ord(found[0]) & 0xFF:03o}"


def _first_row_bytes(line: str) -> int:
    return len(line.partition("\n")[0].encode("utf-8", "surrogatepass"))


def _literal(text: str) -> str:
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)


def is_typable(command: str) -> bool:
    """Return whether a command can be typed unchanged in bash and zsh.

    No line editor, history expansion or line limit may alter it, and it can be neither incomplete nor a syntax error: a shell
    responds to those with a continuation prompt, or keeps the previous status.
    """
    if len(command) >= _PLAIN_LIMIT or _ACTED_UPON.search(command):
        return False
    return _PLAIN.fullmatch(command) is not None and not _RESERVED.search(command)


def is_pastable(command: str, dialect: Dialect) -> bool:
    """Return whether a line editor takes a pasted command unchanged, at once.

    It has at most 1000 characters, and no control characters but line feeds and tabs. fish drops tabs.
    """
    kept = command if dialect == "fish" else command.replace("\t", "")
    return len(command) < _PLAIN_LIMIT and not _ACTED_UPON.search(kept)


def paste(text: str) -> str:
    """Return the text to type for a bracketed paste."""
    return f"{PASTE_BEGIN.decode()}{text}{PASTE_END.decode()}"


def as_paste(line: str, bracketed: bool, dialect: Dialect = "posix") -> str:
    """Return the text to type for a line: a bracketed paste if it has several rows and the line editor supports it.

    zsh gets several pastes of whole rows, each sent at once: it ends a paste in which no byte arrives for its KEYTIMEOUT
    (0.4 s), and reads the rest as keys. The second and later pastes begin with a line feed, so that no widget treats one as a
    URL.
    """
    if not bracketed or "\n" not in line:
        return line
    if dialect == "fish":  # it removes blanks at the start of a paste, and then keeps the line in its history
        return line[: len(line) - len(line.lstrip(" "))] + paste(line.lstrip(" "))
    pastes = [line] if dialect != "zsh" else _grouped(re.split(r"(?=\n)", line))
    return "".join(f"{PASTE_BEGIN.decode()}{paste}{PASTE_END.decode()}" for paste in pastes)


def _grouped(rows: list[str]) -> Iterator[str]:
    """Join rows into texts of at most `_ZSH_PASTE_CHARACTERS`, or of one row."""
    begin = size = 0
    for number, row in enumerate(rows):
        if size and size + len(row) > _ZSH_PASTE_CHARACTERS:
            yield "".join(rows[begin:number])
            begin, size = number, 0
        size += len(row)
    yield "".join(rows[begin:])


def shell_probes(left: int, right: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return two harmless lines, each with a text that only a POSIX shell prints for it; zsh appends its version.

    The leading blank is as in `Marker.line`. fish keeps a line that it cannot parse in its editor, before the next command. It
    can parse the first one and reports an error when it runs it (`FISH_ERROR_PREFIX`). Functions of other shells may replace
    eval and echo; the second line consists of the path of a program that does not exist, and of an assignment that keeps the
    error from ending a shell under `set -e`. The shell's name precedes the path; PowerShell prints the path alone.
    """
    version, sum_text = f"$(({left}+{right}))${{ZSH_VERSION-}}", str(left + right)
    by_echo, by_error = f""" 'eval' 'echo "{version}";{_WITHOUT_HISTORY}'""", f' "/{version}"||{_BEFORE_EVAL}='
    return (by_echo, sum_text), (by_error, f": /{sum_text}")

"""Way 2 to know a run's end: the command is wrapped in two printfs of a marker of its own (design, section 6).

What is typed holds the marker only in pieces, so the echo never contains it. The first form is the marks' own OSC sequence
(core.marks), which no screen shows and no spool keeps; where something on the way swallows it, an ASCII form does it as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .control_sequences import PASTE_BEGIN, PASTE_END
from .marks import OSC_NUMBER
from .shells import Dialect

#: The shell function that sends a mark. It lives as long as the shell, and in its memory only.
FUNCTION = "__ptyctl"
#: How fish begins what it says of a line that it cannot run.
FISH_ERROR_PREFIX = "fish: "
#: Behind a command that may fail without ending a shell under `set -e`, or setting off a trap, and whose status stays.
_AND_ON = "&&:"
#: What a terminal or a line editor acts upon instead of taking it in, however it is quoted.
_ACTED_UPON = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
#: What would not pass through a printf format in single quotes; `!` since history is expanded inside double ones (bash).
_NOT_IN_A_FORMAT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f'\\%!]|^-")
#: A terminal in canonical mode cuts a line at 4095 bytes (Linux termios(3)), a small shell's editor at 1024 (busybox): so many
#: characters of up to four bytes are typed in one line, whose quotes are then closed and opened again.
_LONG_LINE = re.compile(r"((?:'\\''|[^'\n]){150})(?=[^\n])")

#: Words, quoted ones too, in pipelines and lists.
_WORD = r"""(?:[\w./:@%+,~-]|=(?=\w)|'[^'!\x00-\x1f\x7f\\]*'|"[^"!`$\x00-\x1f\x7f\\]*")+"""
_PLAIN = re.compile(rf"{_WORD}(?: +(?:(?:\|\||&&|[|;]) +)?{_WORD}|; +{_WORD})*")
#: A word of the shell's grammar may want more to follow.
_RESERVED = re.compile(
    r"(?:^|[ ;|&])(?:if|then|elif|else|fi|for|foreach|do|done|while|until|repeat|case|esac|select|switch|function|coproc|time|"
    r"begin|end|and|or|not|nocorrect|noglob)(?:$|[ ;])"
)
_PLAIN_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Marker:
    """Wraps commands for one shell; `nonce` is the session's, as of its marks."""

    nonce: str
    dialect: Dialect = "posix"

    def line(self, command: str, counter: int, *, define: bool = True) -> str:
        """One logical line that runs `command` between a begin mark (`counter`) and an end mark (`counter` + 1).

        `define` brings the function that sends a mark; a shell keeps it, and a short line is echoed in a third of the time.
        The command finds the status of the one before, and leaves its own to the next.
        The leading blank keeps the line out of the history where the shell is asked for that (HISTCONTROL, HIST_IGNORE_SPACE).
        """
        begin = f"{FUNCTION} {counter} B "
        if define:  # to define a function is a command too, with a status: the one before is looked up first
            begin = f"eval {self._quote(f'{self._definition()};{begin}')}"
        status = "$status" if self.dialect == "fish" else f"$?{_AND_ON}"
        return f" {begin}{status};{self.eval_command(command)};{FUNCTION} {counter + 1} E {status}"

    def _definition(self) -> str:
        return self._function(f"printf '\\033]{OSC_NUMBER.decode()};{self.nonce};%s;%s;%s\\007'")

    def _function(self, printing: str, more: str = "") -> str:
        """It prints its three arguments: counter, kind and status; and returns the status."""
        if self.dialect == "fish":
            return f"function {FUNCTION};{printing} $argv{more};return $argv[3];end"
        return f'{FUNCTION}(){{ {printing} "$@"{more};return "$3";}}'

    def eval_command(self, command: str) -> str:
        """Runs `command`, however many lines it has; its control characters are told to the shell in a form that can be typed.

        `command eval` outlives a syntax error in shells for which eval is a special built-in (POSIX 2.8.1).
        """
        command = command.replace("\r\n", "\n")
        if self.dialect == "fish":
            return f"eval {self._quote(command)}"
        evaluate = "command eval" if self.dialect == "posix" else "eval"
        if not _ACTED_UPON.search(command):
            return f"{evaluate} {self._quote(command)}"
        format_ = _NOT_IN_A_FORMAT.sub(lambda found: f"\\{ord(found[0]):03o}", command)
        return f'{evaluate} "(exit $?){_AND_ON};$(printf {self._quote(format_)})"'  # printf has a status too

    def _quote(self, text: str) -> str:
        if self.dialect == "fish":
            quoted = text.replace("\\", "\\\\").replace("'", "\\'")
            return "'" + _ACTED_UPON.sub(lambda found: f"'\\x{ord(found[0]):02x}'", quoted) + "'"
        return "'" + _LONG_LINE.sub("\\1'\\\n'", text.replace("'", "'\\''")) + "'"


@dataclass(frozen=True, slots=True)
class AsciiMarker(Marker):
    """The marker as text, `prefix nonce;counter;kind;status suffix`, found by searching the output."""

    prefix: str = "__PTYCTL_"
    suffix: str = "__"

    def pattern(self, kind: Literal["B", "E"], counter: int) -> str:
        """An RE2 pattern of that mark; the status is its first group."""
        return f"{_literal(self.prefix)}{self.nonce};{counter};{kind};(\\d+){_literal(self.suffix)}"

    def _definition(self) -> str:
        printing = f"printf '%s%s;%s;%s;%s%s' {self._quote(self.prefix)} {self.nonce}"
        return self._function(printing, f" {self._quote(self.suffix)}")


def _literal(text: str) -> str:
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)


def is_typable(command: str) -> bool:
    """Whether a command can be typed as it is, in bash and zsh.

    Nothing may act upon it (a line editor, the history, a terminal's limit), and it can be neither incomplete nor a syntax
    error: a shell answers those by a prompt of another kind, or with the status of the command before.
    """
    return len(command) < _PLAIN_LIMIT and _PLAIN.fullmatch(command) is not None and not _RESERVED.search(command)


def as_paste(line: str, bracketed: bool) -> str:
    """A marker's line as it is typed: where it has several, a line editor takes them as one paste if it can."""
    return f"{PASTE_BEGIN.decode()}{line}{PASTE_END.decode()}" if bracketed and "\n" in line else line


def shell_probe(left: int, right: int) -> tuple[str, str]:
    """A harmless line and what only a POSIX shell answers to it; zsh's answer goes on with its version.

    The leading blank is as in `Marker.line`. A line that fish cannot read stays in its editor, before the next command: so this
    one is a word to it, of which it complains when it is run (`FISH_ERROR_PREFIX`).
    """
    return f" eval 'echo $(({left}+{right}))${{ZSH_VERSION-}}'", str(left + right)

"""Way 2 to know a run's end: the command is wrapped in two printfs of a marker of its own (design, section 6).

What is typed holds the marker only in pieces, so the echo never contains it. The first form is a private OSC sequence, which
no screen shows and no spool keeps; where something on the way swallows it, an ASCII form does the same as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .control import PASTE_BEGIN, PASTE_END

Dialect = Literal["posix", "zsh", "fish"]
MarkKind = Literal["begin", "end"]

#: Our private OSC number; what follows it is `;nonce;run;begin` or `;nonce;run;end;status`.
OSC_NUMBER = "7717"
_SHELLS: dict[str, Dialect] = {
    **dict.fromkeys(("sh", "bash", "dash", "ash", "ksh", "mksh", "busybox"), "posix"),
    "zsh": "zsh",
    "fish": "fish",
}
_OPTIONS_WITH_A_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
#: What a terminal or a line editor acts upon instead of taking it in, however it is quoted.
_ACTED_UPON = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
#: What would not pass through a printf format in single quotes; `!` since history is expanded inside double ones (bash).
_NOT_IN_A_FORMAT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f'\\%!]|^-")
#: A terminal in canonical mode cuts a line at 4095 bytes (Linux termios(3)), a small shell's editor at 1024 (busybox): so many
#: characters of up to four bytes are typed in one line, whose quotes are then closed and opened again.
_LONG_LINE = re.compile(r"((?:'\\''|[^'\n]){150})(?=[^\n])")


def shell_dialect(program: str) -> Dialect | None:
    """How to speak to the shell of that path, or None for what is no shell that we know."""
    return _SHELLS.get(program.rpartition("/")[2].lstrip("-"))


def answering_program(argv: Sequence[str]) -> str:
    """The program that will answer what is typed: of `sh -c script` what the script runs first, of a shell with a file the
    file, of busybox its applet."""
    name, *arguments = argv
    if name.rpartition("/")[2] == "busybox" and arguments:
        return answering_program(arguments)
    if shell_dialect(name) is None:
        return name
    options = iter(arguments)
    for option in options:
        if option in _OPTIONS_WITH_A_VALUE:
            next(options, None)
        elif option[:1] not in ("-", "+"):
            return option
        elif "c" in option and not option.startswith("--"):
            words = next(options, "").removeprefix("exec ").split()
            return answering_program(words) if words else name
    return name


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker that was seen. `status` is the command's exit status, with `end`."""

    run: str
    kind: MarkKind
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Marker:
    """The markers of one session; `nonce` keeps those of others, and of old output, apart."""

    nonce: str
    dialect: Dialect = "posix"

    def line(self, command: str, run: str) -> str:
        """One logical line that runs `command` between two marks, with the command's own status kept for the second.

        The leading blank keeps it out of the history where the shell is asked for that (HISTCONTROL, HIST_IGNORE_SPACE).
        """
        status = "$status" if self.dialect == "fish" else '"$?"'
        begin, end = self._printf(run, "begin", ""), self._printf(run, "end", f" {status}")
        evaluate = self._evaluate(command.replace("\r\n", "\n"))
        return f" {begin}; {evaluate}; {end}"

    def osc(self, payload: bytes) -> Mark | None:
        """The mark in an OSC payload, or None when it is none of ours."""
        parts = payload.decode("ascii", "replace").split(";")
        if len(parts) < 4 or parts[:2] != [OSC_NUMBER, self.nonce]:
            return None
        if parts[3] == "end" and len(parts) == 5 and parts[4].isdigit():
            return Mark(parts[2], "end", int(parts[4]))
        return Mark(parts[2], "begin") if parts[3] == "begin" and len(parts) == 4 else None

    def _printf(self, run: str, kind: str, status: str) -> str:
        format_ = f"\\033]{OSC_NUMBER};%s;%s;{kind}" + (";%s" if status else "") + "\\007"
        return f"printf '{format_}' {self.nonce} {run}{status}"

    def _evaluate(self, command: str) -> str:
        """Runs `command`; its control characters are told to the shell in a form that can be typed.

        `command eval` outlives a syntax error in shells for which eval is a special built-in (POSIX 2.8.1).
        """
        if self.dialect == "fish":
            return f"eval {self._quote(command)}"
        evaluate = "command eval" if self.dialect == "posix" else "eval"
        if not _ACTED_UPON.search(command):
            return f"{evaluate} {self._quote(command)}"
        format_ = _NOT_IN_A_FORMAT.sub(lambda found: f"\\{ord(found[0]):03o}", command)
        return f'{evaluate} "$(printf {self._quote(format_)})"'

    def _quote(self, text: str) -> str:
        if self.dialect == "fish":
            quoted = text.replace("\\", "\\\\").replace("'", "\\'")
            return "'" + _ACTED_UPON.sub(lambda found: f"'\\x{ord(found[0]):02x}'", quoted) + "'"
        return "'" + _LONG_LINE.sub("\\1'\\\n'", text.replace("'", "'\\''")) + "'"


@dataclass(frozen=True, slots=True)
class AsciiMarker(Marker):
    """The marker as text, `prefix nonce.run.kind.status suffix`, found by searching the output."""

    prefix: str = "__PTYCTL_"
    suffix: str = "__"

    def pattern(self, run: str, kind: MarkKind) -> str:
        """An RE2 pattern of that mark; the status is its first group."""
        body = f"{self.nonce}.{run}.{kind}" + (r"\.(\d+)" if kind == "end" else "")
        return f"{_literal(self.prefix)}{body.replace('.', '[.]', 2)}{_literal(self.suffix)}"

    def _printf(self, run: str, kind: str, status: str) -> str:
        format_ = "%s%s" + (".%s" if status else "") + "%s"
        return f"printf '{format_}' {self._quote(self.prefix)} {self.nonce}.{run}.{kind}{status} {self._quote(self.suffix)}"


def _literal(text: str) -> str:
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)


def typed(line: str, bracketed: bool) -> str:
    """A marker's line as it is typed: where it has several, a line editor takes them as one paste if it can."""
    return f"{PASTE_BEGIN.decode()}{line}{PASTE_END.decode()}" if bracketed and "\n" in line else line


def probe(left: int, right: int) -> tuple[str, str]:
    """A harmless line and what only a POSIX shell answers to it; zsh's answer goes on with its version."""
    return f"echo $(({left}+{right}))$ZSH_VERSION", str(left + right)

"""Command grammar: keywords with abbreviations, typed parameters, help, completion, and the errors IOS reports.

A command is written as in IOS manuals: `terminal length <0-512>`, `ip address A.B.C.D A.B.C.D`, `description LINE`.
Lower-case words are keywords, all others parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .line_editor import common_prefix_length

T = TypeVar("T")

_TOKEN = re.compile(r"\S+")
_RANGE = re.compile(r"<(\d+)-(\d+)>")
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"

PARAMETERS = {
    "WORD": r"\S+",
    "LINE": r"\S.*",
    "A.B.C.D": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
    "IFNAME": r"[A-Za-z]+[\d/]+",
    "IFTYPE": r"[A-Za-z]+",
    "IFNUMBER": r"[\d/]+",
}


class CommandError(Exception):
    """A line that is not a complete, valid command."""

    def report(self, prompt: str, line: str) -> str:
        """Return the error as IOS prints it."""
        raise NotImplementedError


class InvalidInput(CommandError):
    """No command continues with the text at `offset` characters into the line."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset

    def report(self, prompt: str, line: str) -> str:
        return f"{' ' * (len(prompt) + self.offset)}^\n% Invalid input detected at '^' marker.\n\n"


class AmbiguousCommand(CommandError):
    """A word abbreviates more than one keyword."""

    def report(self, prompt: str, line: str) -> str:
        return f'% Ambiguous command:  "{line.strip()}"\n'


class IncompleteCommand(CommandError):
    """The line is the beginning of a command."""

    def report(self, prompt: str, line: str) -> str:
        return "% Incomplete command.\n\n"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parameters of a parsed line, and the offset of each in the line."""

    texts: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()


class CommandSet(Generic[T]):
    """The commands of one mode, as pairs of syntax and command object.

    Args:
        fallback: Commands to try for lines that are not in this set: all configuration submodes accept global commands.
    """

    def __init__(self, commands: Iterable[tuple[str, T]], fallback: CommandSet[T] | None = None) -> None:
        own = [(syntax.split(), command) for syntax, command in commands]
        self._levels: list[list[tuple[list[str], T]]] = [own, *(fallback._levels if fallback else [])]

    def parse(self, line: str) -> tuple[T, Arguments]:
        """Return the command object of `line` and its arguments.

        Raises:
            CommandError: from the set that understood most of the line.
        """
        failures: list[InvalidInput] = []
        for commands in self._levels:
            try:
                continuations, arguments = _walk(commands, line)
            except InvalidInput as error:
                failures.append(error)
                continue
            for words, command in continuations:
                if not words:
                    return command, arguments
            raise IncompleteCommand
        raise max(failures, key=lambda error: error.offset)

    def help_for(self, line: str) -> list[str]:
        """Return the completions of the last word, or after a space the possible next words, in sorted order.

        `<cr>` means that a command may end there.

        Raises:
            InvalidInput, AmbiguousCommand: in the preceding words.
        """
        head, word = _split_last_word(line)
        names: set[str] = set()
        failures: list[CommandError] = []
        for commands in self._levels:
            try:
                names |= {words[0] if words else "<cr>" for words, _ in _walk(commands, head)[0]}
            except CommandError as error:
                failures.append(error)
        if len(failures) == len(self._levels):
            raise failures[0]
        return sorted(name for name in names if name.startswith(word.lower()))

    def complete(self, line: str) -> str | None:
        """Return `line` with its last word completed, or None if there is no single completion."""
        head, word = _split_last_word(line)
        candidates: set[str] = set()
        for commands in self._levels:
            try:
                keywords = {words[0] for words, _ in _walk(commands, head)[0] if words and words[0].islower()}
            except CommandError:
                continue
            matches = {keyword for keyword in keywords if keyword.startswith(word.lower())}
            candidates |= matches if len(matches) == 1 else set()
        return f"{head}{candidates.pop()} " if word and len(candidates) == 1 else None


def _walk(commands: list[tuple[list[str], T]], line: str) -> tuple[list[tuple[list[str], T]], Arguments]:
    """Return the commands that begin with `line`, each with its remaining words, and the parameters in the line.

    Raises:
        AmbiguousCommand, InvalidInput.
    """
    found: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(line):
        token, offset = match.group(), match.start()
        expected = {words[0] for words, _ in commands if words}
        if "LINE" in expected:
            token = line[offset:].rstrip()
        word = _match_word(expected, token, offset)
        commands = [(words[1:], command) for words, command in commands if words[:1] == [word]]
        if not word.islower():
            found.append((token, offset))
        if word == "LINE":
            break
    return commands, Arguments(tuple(text for text, _ in found), tuple(offset for _, offset in found))


def _match_word(expected: set[str], token: str, offset: int) -> str:
    """Return the expected word of the syntax that `token` is or abbreviates."""
    typed = token.lower()
    keywords = {word for word in expected if word.islower()}
    matches = {typed} & keywords or {keyword for keyword in keywords if keyword.startswith(typed)}
    matches = matches or {parameter for parameter in expected - keywords if _accepts(parameter, token)}
    if not matches:
        # The caret points at the first character that no keyword has at this position.
        raise InvalidInput(offset + max((common_prefix_length(typed, keyword) for keyword in keywords), default=0))
    if len(matches) > 1:
        raise AmbiguousCommand
    return matches.pop()


def _accepts(parameter: str, token: str) -> bool:
    if bounds := _RANGE.fullmatch(parameter):
        is_number = token.isascii() and token.isdigit() and len(token) <= 10
        return is_number and int(bounds[1]) <= int(token) <= int(bounds[2])
    return re.fullmatch(PARAMETERS[parameter], token) is not None


def _split_last_word(line: str) -> tuple[str, str]:
    word = line.split(" ")[-1]
    return line.removesuffix(word), word

"""Command grammar: keywords with abbreviations, typed parameters, help, completion, and the errors IOS reports.

A command is written as in IOS manuals: `terminal length <0-512>`, `ip address A.B.C.D A.B.C.D`, `description LINE`.
Lower-case words are keywords, all others parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .line_editor import common_prefix_length

T = TypeVar("T")

_TOKEN = re.compile(r"\S+")
_LAST_WORD = re.compile(r"\S*\Z")
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
class Parameter:
    """Parameter of a command, by its name in the manual."""

    name: str

    def accepts(self, token: str) -> bool:
        if bounds := _RANGE.fullmatch(self.name):
            is_number = token.isascii() and token.isdigit() and len(token) <= 10
            return is_number and int(bounds[1]) <= int(token) <= int(bounds[2])
        return re.fullmatch(PARAMETERS[self.name], token) is not None


@dataclass(slots=True)
class GrammarNode(Generic[T]):
    """Node of the command tree: the possible next words, and the command that ends here."""

    keywords: dict[str, GrammarNode[T]] = field(default_factory=dict)
    parameters: dict[Parameter, GrammarNode[T]] = field(default_factory=dict)
    command: T | None = None

    def add(self, syntax: str, command: T) -> None:
        node = self
        for word in syntax.split():
            if word[0].islower():
                node = node.keywords.setdefault(word, GrammarNode())
            else:
                node = node.parameters.setdefault(Parameter(word), GrammarNode())
        node.command = command

    def step(self, token: str, offset: int) -> tuple[GrammarNode[T], bool]:
        """Return the node after `token`, and whether the token is a parameter.

        Raises:
            AmbiguousCommand, InvalidInput.
        """
        word = token.lower()
        matches = [word] if word in self.keywords else [keyword for keyword in self.keywords if keyword.startswith(word)]
        if len(matches) == 1:
            return self.keywords[matches[0]], False
        if matches:
            raise AmbiguousCommand
        for parameter, node in self.parameters.items():
            if parameter.accepts(token):
                return node, True
        # The caret points at the first character that no keyword has at this position.
        agreed = max((common_prefix_length(word, keyword) for keyword in self.keywords), default=0)
        raise InvalidInput(offset + agreed)

    def next_words(self) -> list[str]:
        """Return the possible next words; `<cr>` where a command may end."""
        names = [*self.keywords, *(parameter.name for parameter in self.parameters)]
        return names if self.command is None else [*names, "<cr>"]

    @property
    def takes_rest_of_line(self) -> bool:
        return Parameter("LINE") in self.parameters

    def walk(self, line: str) -> tuple[GrammarNode[T], Arguments]:
        """Return the node at the end of `line`, and the parameters on the way.

        Raises:
            AmbiguousCommand, InvalidInput.
        """
        node = self
        found: list[tuple[str, int]] = []
        for match in _TOKEN.finditer(line):
            token, offset = match.group(), match.start()
            takes_rest = node.takes_rest_of_line
            if takes_rest:
                token = line[offset:].rstrip()
            node, is_parameter = node.step(token, offset)
            if is_parameter:
                found.append((token, offset))
            if takes_rest:
                break
        return node, Arguments(tuple(text for text, _ in found), tuple(offset for _, offset in found))


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
        root: GrammarNode[T] = GrammarNode()
        for syntax, command in commands:
            root.add(syntax, command)
        self._roots: list[GrammarNode[T]] = [root, *(fallback._roots if fallback else [])]

    def parse(self, line: str) -> tuple[T, Arguments]:
        """Return the command object of `line` and its arguments.

        Raises:
            CommandError: from the set that understood most of the line.
        """
        failures: list[InvalidInput] = []
        for root in self._roots:
            try:
                node, arguments = root.walk(line)
            except InvalidInput as error:
                failures.append(error)
                continue
            if node.command is None:
                raise IncompleteCommand
            return node.command, arguments
        raise max(failures, key=lambda error: error.offset)

    def help_for(self, line: str) -> list[str]:
        """Return the completions of the last word, or after a space the possible next words, in sorted order.

        Raises:
            InvalidInput, AmbiguousCommand: in the preceding words.
        """
        head, word = _split_last_word(line)
        names: set[str] = set()
        failures: list[CommandError] = []
        for root in self._roots:
            try:
                names.update(name for name in root.walk(head)[0].next_words() if name.startswith(word.lower()))
            except CommandError as error:
                failures.append(error)
        if len(failures) == len(self._roots):
            raise failures[0]
        return sorted(names)

    def complete(self, line: str) -> str | None:
        """Return `line` with its last word completed, or None if there is no single completion."""
        candidates = {_complete(root, line) for root in self._roots} - {None}
        return candidates.pop() if len(candidates) == 1 else None


def _complete(root: GrammarNode[T], line: str) -> str | None:
    head, word = _split_last_word(line)
    try:
        node, _ = root.walk(head)
    except CommandError:
        return None
    keywords = [keyword for keyword in node.keywords if keyword.startswith(word.lower())]
    return f"{head}{keywords[0]} " if word and len(keywords) == 1 else None


def _split_last_word(line: str) -> tuple[str, str]:
    match = _LAST_WORD.search(line)
    assert match is not None, "the pattern also matches an empty word"
    return line[: match.start()], match.group()

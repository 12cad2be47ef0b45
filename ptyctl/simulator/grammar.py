"""The command language: a tree of keywords and parameters, abbreviations, and the three ways in which a line can be wrong.

A command is written as IOS manuals write it: `terminal length <0-512>`, `ip address A.B.C.D A.B.C.D`, `description LINE`.
Lower case is a keyword, anything else a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .prefix import common_prefix_length

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
    """The line is no command. `report` is what IOS prints of it."""

    def report(self, prompt: str, line: str) -> str:
        raise NotImplementedError


class InvalidInput(CommandError):
    """At `offset` characters into the line stands something that no command has there."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset

    def report(self, prompt: str, line: str) -> str:
        return f"{' ' * (len(prompt) + self.offset)}^\n% Invalid input detected at '^' marker.\n\n"


class AmbiguousCommand(CommandError):
    """An abbreviation of more than one keyword."""

    def report(self, prompt: str, line: str) -> str:
        return f'% Ambiguous command:  "{line.strip()}"\n'


class IncompleteCommand(CommandError):
    """The beginning of a command."""

    def report(self, prompt: str, line: str) -> str:
        return "% Incomplete command.\n\n"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name in the manual, and which tokens it takes."""

    name: str

    def accepts(self, token: str) -> bool:
        if bounds := _RANGE.fullmatch(self.name):
            is_number = token.isascii() and token.isdigit() and len(token) <= 10
            return is_number and int(bounds[1]) <= int(token) <= int(bounds[2])
        return re.fullmatch(PARAMETERS[self.name], token) is not None


@dataclass(slots=True)
class Node(Generic[T]):
    """A place in the tree: what may come next, and what to run when nothing does."""

    keywords: dict[str, Node[T]] = field(default_factory=dict)
    parameters: dict[Parameter, Node[T]] = field(default_factory=dict)
    run: T | None = None

    def add(self, command: str, run: T) -> None:
        node = self
        for word in command.split():
            if word[0].islower():
                node = node.keywords.setdefault(word, Node())
            else:
                node = node.parameters.setdefault(Parameter(word), Node())
        node.run = run

    def step(self, token: str, offset: int) -> tuple[Node[T], bool]:
        """The next node, and whether the token was a parameter.

        Raises:
            AmbiguousCommand, InvalidInput.
        """
        word = token.lower()
        found = [word] if word in self.keywords else [keyword for keyword in self.keywords if keyword.startswith(word)]
        if len(found) == 1:
            return self.keywords[found[0]], False
        if found:
            raise AmbiguousCommand
        for parameter, node in self.parameters.items():
            if parameter.accepts(token):
                return node, True
        # The caret stands under the first character that no keyword has there.
        agreed = max((common_prefix_length(word, keyword) for keyword in self.keywords), default=0)
        raise InvalidInput(offset + agreed)

    def expects(self) -> list[str]:
        """What may come next, as the help after `?` lists it."""
        names = sorted(self.keywords) + [parameter.name for parameter in self.parameters]
        return names if self.run is None else [*names, "<cr>"]

    @property
    def takes_rest(self) -> bool:
        return Parameter("LINE") in self.parameters


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parameters of a parsed line, and where in the line each begins."""

    texts: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()


def build(commands: Iterable[tuple[str, T]]) -> Node[T]:
    """A tree of (command, what to run) pairs."""
    root: Node[T] = Node()
    for command, run in commands:
        root.add(command, run)
    return root


def parse(root: Node[T], line: str) -> tuple[T, Arguments]:
    """What the line runs, and with what.

    Raises:
        InvalidInput, AmbiguousCommand, IncompleteCommand.
    """
    node, found = _walk(root, line)
    if node.run is None:
        raise IncompleteCommand
    return node.run, Arguments(tuple(text for text, _ in found), tuple(offset for _, offset in found))


def help_for(root: Node[T], line: str) -> list[str]:
    """What may stand where the line ends now: the completions of its last word, or after a space what comes next.

    Raises:
        InvalidInput, AmbiguousCommand: in what stands before.
    """
    head, word = _split_last(line)
    node, _ = _walk(root, head)
    return [name for name in node.expects() if name.startswith(word.lower())]


def complete(root: Node[T], line: str) -> str | None:
    """The line with its last word completed, if one keyword only begins like that."""
    head, word = _split_last(line)
    try:
        node, _ = _walk(root, head)
    except CommandError:
        return None
    found = [keyword for keyword in node.keywords if keyword.startswith(word.lower())]
    return f"{head}{found[0]} " if word and len(found) == 1 else None


def _walk(root: Node[T], line: str) -> tuple[Node[T], list[tuple[str, int]]]:
    node = root
    arguments: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(line):
        token, offset = match.group(), match.start()
        rest = node.takes_rest
        if rest:
            token = line[offset:].rstrip()
        node, is_parameter = node.step(token, offset)
        if is_parameter:
            arguments.append((token, offset))
        if rest:
            break
    return node, arguments


def _split_last(line: str) -> tuple[str, str]:
    word = re.search(r"\S*$", line)
    assert word is not None, "the pattern matches an empty word too"
    return line[: word.start()], word.group()

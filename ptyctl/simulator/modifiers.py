"""What may stand behind the bar of a show command: include, exclude, begin and section."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import dropwhile

import re2

from .grammar import InvalidInput, build, parse

Matches = Callable[[str], bool]
Filter = Callable[[Iterable[str], Matches], Iterable[str]]


def modify(text: str, modifier: str, offset: int) -> str:
    """The lines of `text` that the modifier, which begins `offset` characters into the typed line, leaves.

    Raises:
        InvalidInput, AmbiguousCommand, IncompleteCommand.
    """
    try:
        choose, arguments = parse(MODIFIERS, modifier)
    except InvalidInput as error:
        raise InvalidInput(offset + error.offset) from error
    options = re2.Options()
    options.log_errors = False
    try:
        # Linear time whatever the pattern: the switch runs in the event loop of its users.
        pattern = re2.compile(_bytes(arguments.texts[0]), options)
    except re2.error as error:
        raise InvalidInput(offset + arguments.offsets[0]) from error
    lines = text.splitlines(keepends=True)
    return "".join(choose(lines, lambda line: pattern.search(_bytes(line.rstrip("\n"))) is not None))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _include(lines: Iterable[str], matches: Matches) -> Iterable[str]:
    return filter(matches, lines)


def _exclude(lines: Iterable[str], matches: Matches) -> Iterable[str]:
    return (line for line in lines if not matches(line))


def _begin(lines: Iterable[str], matches: Matches) -> Iterable[str]:
    return dropwhile(lambda line: not matches(line), lines)


def _section(lines: Iterable[str], matches: Matches) -> Iterator[str]:
    """Each line that matches, with the indented lines below it."""
    inside = False
    for line in lines:
        inside = matches(line) or (inside and line.startswith(" "))
        if inside:
            yield line


_FILTERS: tuple[tuple[str, Filter], ...] = (
    ("include LINE", _include),
    ("exclude LINE", _exclude),
    ("begin LINE", _begin),
    ("section LINE", _section),
)

MODIFIERS = build(_FILTERS)

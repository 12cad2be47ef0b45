"""Which commands there are in which mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .config_commands import CONFIG, INTERFACE, VLAN
from .exec_commands import PRIVILEGED, USER
from .grammar import CommandError, InvalidInput, Node, complete, help_for, parse
from .modes import Mode

if TYPE_CHECKING:
    from .exec_commands import Handler
    from .grammar import Arguments

#: What does not parse in the first tree of a mode may be a command of the next one, as everywhere below `configure`.
TREES: dict[Mode, tuple[Node[Handler], ...]] = {
    Mode.USER: (USER,),
    Mode.PRIVILEGED: (PRIVILEGED,),
    Mode.CONFIG: (CONFIG,),
    Mode.CONFIG_IF: (INTERFACE, CONFIG),
    Mode.CONFIG_VLAN: (VLAN, CONFIG),
}


def interpret(mode: Mode, line: str) -> tuple[Handler, Arguments]:
    """What `line` runs in `mode`, and with what.

    Raises:
        CommandError: of the tree that understood most of the line.
    """
    failures: list[InvalidInput] = []
    for tree in TREES[mode]:
        try:
            return parse(tree, line)
        except InvalidInput as error:
            failures.append(error)
    raise max(failures, key=lambda error: error.offset)


def help_in(mode: Mode, line: str) -> list[str]:
    """What may come where `line` ends.

    Raises:
        CommandError: in what stands before.
    """
    names: set[str] = set()
    failures: list[CommandError] = []
    for tree in TREES[mode]:
        try:
            names.update(help_for(tree, line))
        except CommandError as error:
            failures.append(error)
    if len(failures) == len(TREES[mode]):
        raise failures[0]
    return sorted(names)


def complete_in(mode: Mode, line: str) -> str | None:
    """`line` with its last word completed, if that is possible in one way."""
    found = {complete(tree, line) for tree in TREES[mode]} - {None}
    return found.pop() if len(found) == 1 else None

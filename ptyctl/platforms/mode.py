"""A command mode: how its prompt looks, and which modes can be reached from it."""

from __future__ import annotations

from pydantic import Field

from ptyctl.api.model import Value
from ptyctl.core.prompt import DEFAULT_PROMPT

from .command import Answer
from .pattern import Pattern


class Above(Value):
    """The line above the prompt that belongs to it: `[edit]` on Junos, `[/]` on SR OS. `required`: it tells the mode."""

    pattern: Pattern
    required: bool = True


class Move(Value):
    """The lines that lead into another mode, and the answers to what is asked on the way.

    None of them commits or drops somebody's configuration: a question about that is the caller's to answer. `enter`: the end
    of line goes behind each; a control key needs none.
    """

    commands: tuple[str, ...] = Field(min_length=1)
    dialog: tuple[Answer, ...] = ()
    enter: bool = True


class Mode(Value):
    """`prompt` is the last line. `config`: what is typed here changes the device, so a login does not stay in it."""

    prompt: Pattern = Field(default_factory=lambda: Pattern.of(DEFAULT_PROMPT))
    above: Above | None = None
    config: bool = False
    to: dict[str, Move] = Field(default_factory=dict)

"""What a login does next: one value for whoever has the terminal in hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ptyctl.api.errors import ErrorCode

from .command import SecretName

Kind = Literal[
    "wait",  # nothing to answer yet
    "username",  # `layer`'s, with `text` behind it
    "secret",  # `layer`'s, by the name in `secret`
    "enter",
    "answer",  # `text`, to a question
    "clear_line",  # the key in `text`
    "interrupt",  # the key in `text`
    "quit_pager",  # the key in `text`
    "leave_mode",  # the command in `text`
    "done",  # in `mode`
    "failed",
]


@dataclass(frozen=True, slots=True)
class Action:
    """`enter`: the end of line goes behind what is typed. `why` is for people; of a failure: the cause and a next step."""

    kind: Kind
    text: str = ""
    enter: bool = True
    secret: SecretName | None = None
    layer: int = 0
    mode: str | None = None
    why: str = ""
    code: ErrorCode | None = None
    prompt: str = ""


WAIT = Action("wait", enter=False)
ENTER = Action("enter")


def key(kind: Kind, text: str) -> Action:
    """A key by itself."""
    return Action(kind, text, enter=False)


def failed(code: ErrorCode, why: str, prompt: str) -> Action:
    return Action("failed", enter=False, code=code, why=why, prompt=prompt)

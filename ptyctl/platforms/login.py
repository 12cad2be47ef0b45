"""How a device lets one in: its questions, and what it says of a wrong answer."""

from __future__ import annotations

from ptyctl.api.model import Value

from .command import Answer
from .pattern import Pattern


class Login(Value):
    """What the file of `generic` names here holds for every family: a console may show another system's login first.

    `wake`: texts that wait for Enter. `questions`: of licence, setup and such, with the answer that declines. `new_password`:
    prompts that want a new password set, which nobody but the caller may do. `failures`: a refused login.
    """

    username: tuple[Pattern, ...] = ()
    password: tuple[Pattern, ...] = ()
    new_password: tuple[Pattern, ...] = ()
    wake: tuple[Pattern, ...] = ()
    questions: tuple[Answer, ...] = ()
    failures: tuple[Pattern, ...] = ()
    username_suffix: str = ""

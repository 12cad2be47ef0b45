"""What is typed on a device, and what is answered to the questions it asks on the way."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from ptyctl.api.model import Value

from .pattern import Pattern

#: The credentials that a device may ask for; the inventory has their values.
SecretName = Literal["password", "enable"]


#: Stands in an answer for the name of the login.
USERNAME = "{username}"


class Answer(Value):
    """What is typed when a line matches: `send`, with the login's name for `{username}`, or a secret by its name. `enter` puts
    the end of line behind."""

    match: Pattern
    send: str | None = None
    secret: SecretName | None = None
    enter: bool = True

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.send is None) == (self.secret is None):
            raise ValueError("needs send or secret, and not both")
        return self


class Commands(Value):
    """Lines typed one after another, each answered by a prompt. `modes` are those it is typed in; none means any.

    A question that `dialog` does not answer is the caller's to answer.
    """

    commands: tuple[str, ...] = Field(min_length=1)
    modes: tuple[str, ...] = ()
    dialog: tuple[Answer, ...] = ()


class Width(Value):
    """Makes the terminal wide, so that no echo wraps. `command` has `{columns}`, at most `columns` of them."""

    command: str = Field(pattern=r"\{columns\}")
    columns: int = Field(ge=80, le=32767)
    modes: tuple[str, ...] = ()

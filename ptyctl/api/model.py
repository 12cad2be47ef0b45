"""The two bases of all requests and replies, and how a request that is wrong is told so."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from .errors import PtyctlError, invalid


def _is_text(text: str) -> str:
    """JSON can hold half of a surrogate pair (RFC 8259, 8.2), UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is no text") from None
    return text


def _is_word(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL, which no program can be given")
    return _is_text(text)


def _is_name(text: str) -> str:
    if not text or "=" in text:
        raise ValueError("is no name of an environment variable")
    return _is_word(text)


#: What is typed: any text.
Text = Annotated[str, AfterValidator(_is_text)]
#: What the system is given, which ends it at a NUL (execve(2), open(2)).
Word = Annotated[str, AfterValidator(_is_word)]
Name = Annotated[str, AfterValidator(_is_name)]
#: What something is called: short enough to be repeated in an error.
Id = Annotated[Text, Field(min_length=1, max_length=256)]


class Value(BaseModel):
    """A part of a request: unknown fields are refused by name, and a rejected value is never repeated."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Request(Value):
    """A call's arguments."""

    @classmethod
    def of(cls, arguments: Any) -> Self:
        """The request that `arguments` (a JSON object) describe.

        Raises:
            PtyctlError: INVALID_ARGUMENT, naming each wrong field and what it should be, never its value.
        """
        try:
            return cls.model_validate(arguments)
        except ValidationError as error:
            raise _explain(error) from None


class Reply(BaseModel):
    """A call's result. Fields that are None are not sent."""

    model_config = ConfigDict(extra="forbid")

    def payload(self) -> dict[str, Any]:
        """The reply as every door sends it."""
        return self.model_dump(mode="json", exclude_none=True)


#: What pydantic says in the words of Python, for a caller who sends JSON.
_PROBLEMS = {
    "dict_type": "Input should be an object",
    "model_type": "Input should be an object",
    "tuple_type": "Input should be an array",
    "too_short": "should not be empty",
}
#: Of a list that is wrong throughout, so many items are enough.
_MOST_TOLD = 10
#: How pydantic names an alternative, in the place of a fault in a field that takes more than one type.
_ALTERNATIVE = re.compile(r"(constrained-)?(str|int)|(tuple|function-after)\[.*")


def _field(location: tuple[int | str, ...]) -> str:
    return ".".join(part for part in map(str, location) if not _ALTERNATIVE.fullmatch(part))


def _explain(error: ValidationError) -> PtyctlError:
    faults = [
        {
            "field": _field(fault["loc"]),
            "problem": _PROBLEMS.get(fault["type"], fault["msg"].removeprefix("Value error, ")),
        }
        for fault in error.errors(include_input=False, include_url=False, include_context=False)
    ]
    told = [f"{fault['field']}: {fault['problem']}" if fault["field"] else fault["problem"] for fault in faults[:_MOST_TOLD]]
    more = [f"and {len(faults) - _MOST_TOLD} more"] if len(faults) > _MOST_TOLD else []
    return invalid("; ".join([*told, *more]), fields=faults[:_MOST_TOLD])

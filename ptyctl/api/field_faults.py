"""The invalid fields of a request or a file, described without the rejected values."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from .errors import MAX_QUOTED_NAME, shortened

#: Problem of a text that cannot be encoded.
NOT_ENCODABLE = "contains a lone surrogate, which UTF-8 cannot encode"
#: How the problem of a field begins that the model does not have.
UNKNOWN_FIELD = "unknown field"
#: Messages of pydantic that use its own or Python's terms, in those of JSON and TOML.
_MESSAGES = {
    "extra_forbidden": UNKNOWN_FIELD,
    "string_unicode": NOT_ENCODABLE,
    "dict_type": "Input should be an object",
    "model_type": "Input should be an object",
    "tuple_type": "Input should be an array",
    "too_short": "should not be empty",
}
#: Prefixes that pydantic adds to the message of a validator, or to that of a tuple, which is an array for the caller.
_PREFIX = re.compile(r"^(Value error, |Tuple )")
#: Pydantic's name of a union member, which it adds to the location of a fault in a field of more than one type.
_UNION_MEMBER = re.compile(r"(constrained-)?(str|int)|(tuple|function-after)\[.*")


class FieldFault(NamedTuple):
    """One invalid field: its location, as names and indices, and the problem, which never contains the rejected value."""

    location: tuple[int | str, ...]
    problem: str

    @property
    def path(self) -> str:
        """The location with dots: `expect.0.pattern`. Long names are shortened: an unknown one is the caller's text."""
        names = (name for name in map(str, self.location) if not _UNION_MEMBER.fullmatch(name))
        return ".".join(shortened(name, MAX_QUOTED_NAME) for name in names)

    @property
    def unknown(self) -> bool:
        """Whether the model has no such field."""
        return self.problem.startswith(UNKNOWN_FIELD)

    @property
    def toml_path(self) -> str:
        """The location as in a TOML file: `modes.user.prompt`, `pagers[0].key`."""
        return toml_path(self.location)


def toml_path(location: tuple[int | str, ...]) -> str:
    """Return a location as in a TOML file."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def field_faults(error: ValidationError, model: type[BaseModel] | None = None) -> list[FieldFault]:
    """Return the faults that pydantic found. Similar names of `model` are added to an unknown field of it."""
    names = list(model.model_fields) if model is not None else []
    faults = []
    for found in error.errors(include_input=False, include_url=False, include_context=False):
        problem = _MESSAGES.get(found["type"]) or _PREFIX.sub("", found["msg"])
        if found["type"] == "extra_forbidden" and len(found["loc"]) == 1:
            problem += _similar(str(found["loc"][0]), names)
        faults.append(FieldFault(found["loc"], problem))
    return faults


def _similar(name: str, names: list[str]) -> str:
    close = get_close_matches(name[:MAX_QUOTED_NAME].lower(), names, n=1)
    return f"; did you mean {close[0]}?" if close else ""

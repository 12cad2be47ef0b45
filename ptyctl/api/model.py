"""Base classes of all requests and replies, their string types, and the check of fields per action."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Self, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from .errors import PtyctlError, invalid
from .field_faults import NOT_ENCODABLE, FieldFault, field_faults


def _check_encodable(text: str) -> str:
    """Reject a lone surrogate: JSON can hold one (RFC 8259, section 8.2), UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(NOT_ENCODABLE) from None
    return text


def _check_no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains a NUL character, which the operating system does not accept")
    return _check_encodable(text)


def _check_variable_name(text: str) -> str:
    if not text or "=" in text:
        raise ValueError("is not a valid name of an environment variable")
    return _check_no_nul(text)


#: Marks an array of words: one text in its place may be several words.
WORDS = object()
#: Marks a type whose empty text is a value. In every other optional field of a tool's call it means that the field is absent.
MAY_BE_EMPTY = object()
_BRACKETED_IPV6 = re.compile(r"^\[([^\[\]]*:[^\[\]]*)\]\Z")
#: Any text that UTF-8 can encode, such as input for a terminal.
Text = Annotated[str, AfterValidator(_check_encodable), MAY_BE_EMPTY]
#: Text without NUL: arguments, paths and host names (execve(2), open(2)).
SystemText = Annotated[str, AfterValidator(_check_no_nul)]
#: A command: quoting it for a shell, and judging it, take time of the event loop. Linux has the same limit for one argument.
Command = Annotated[SystemText, Field(max_length=128 * 1024), MAY_BE_EMPTY]
#: A host name or address. An IPv6 address may be in brackets, as in a URL (RFC 3986, section 3.2.2).
HostName = Annotated[SystemText, AfterValidator(lambda host: _BRACKETED_IPV6.sub(r"\1", host))]
#: The name of an environment variable.
VariableName = Annotated[str, AfterValidator(_check_variable_name)]
#: An identifier, short enough to be repeated in an error message.
Id = Annotated[str, Field(min_length=1, max_length=256)]
#: Largest part of an output in one reply.
MAX_REPLY_BYTES = 4 * 1024 * 1024
#: Size at which a reply with a list ends. Encoding many small values takes several times as long as one text.
MAX_LIST_BYTES = 1024 * 1024
#: Longest list of patterns in a request.
MAX_PATTERNS = 20
#: Most members of an object in a request. Of a list, only the first fault is found (`fail_fast`).
MAX_MEMBERS = 1000
#: A cursor of the ptyctl_* tools: a string, or the same number.
Cursor = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]


def check_members(data: Any) -> Any:
    """Return an object, before it is validated. Raises ValueError if it has too many members: each may be a fault."""
    if isinstance(data, dict) and len(data) > MAX_MEMBERS:
        raise ValueError(f"has more than {MAX_MEMBERS} members")
    return data


def field_kinds(annotation: Any, *metadata: object) -> Iterator[tuple[Any, tuple[object, ...]]]:
    """Yield the types of an annotation without null, each with its metadata."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        yield from field_kinds(inner, *metadata, *more)
    elif origin in (Union, UnionType):
        for option in get_args(annotation):
            yield from field_kinds(option, *metadata)
    elif annotation is not type(None):
        yield annotation, metadata


def _takes_boolean(field: FieldInfo) -> bool:
    """Return whether a field may have a boolean, or no number: then the model decides."""
    types = [kind for kind, _ in field_kinds(field.annotation)]
    return bool in types or not any(kind in (int, float) for kind in types)


#: Marks a field that the tools accept and their schemas leave out: few callers need it, and each field costs an agent context.
Unlisted = WithJsonSchema({"unlisted": True})


class Value(BaseModel):
    """Immutable part of a request. Unknown fields are errors, and validation errors never contain the rejected value."""

    # Deferred: a process uses few of the models, and building the validators of all takes a third of the start of a command.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)


class RequestPart(Value):
    """Value in a request. Null counts as absent, and a boolean is no number."""

    @model_validator(mode="before")
    @classmethod
    def _check_values(cls, data: Any) -> Any:
        """Refuse a boolean for a number, which pydantic takes as 0 or 1.

        Treat null as absent in every optional field: a client in strict mode sends all fields.
        """
        check_members(data)
        if not isinstance(data, dict):
            return data
        for name, value in data.items():
            if (value is True or value is False) and (field := cls.model_fields.get(name)) and not _takes_boolean(field):
                fault = PydanticCustomError("number_type", "Input should be a number, not true or false")
                details = InitErrorDetails(type=fault, loc=(name,), input=value)
                raise ValidationError.from_exception_data(cls.__name__, [details])
        if None not in data.values():
            return data
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in data.items() if value is not None or name not in optional}


class Request(RequestPart):
    """Arguments of one call."""

    @classmethod
    def of(cls, arguments: Any) -> Self:
        """Validate a JSON object.

        Raises:
            PtyctlError: INVALID_ARGUMENT. Names each wrong field and the expected value, never the rejected value.
        """
        try:
            return cls.model_validate(arguments)
        except ValidationError as error:
            raise _invalid_request(error, cls) from None


class Addressed(Request):
    """Base of the requests on one terminal: that of a conversation, or any open session."""

    session_id: Id | None = None
    conversation_id: Id | None = None
    client_id: Annotated[Id, Unlisted] = "default"
    task_id: Id | None = None

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        if (self.conversation_id is None) == (self.session_id is None):
            raise ValueError("give conversation_id (a terminal of your own) or session_id (an open session), not both")
        return self


class Reply(BaseModel):
    """Result of one call."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    def payload(self) -> dict[str, Any]:
        """Return the reply as a JSON object, without fields that are None."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def of(cls, wire: Reply) -> Self:
        """Build a reply of one action from the reply of its tool, which has the fields of all actions."""
        return cls.model_validate({name: getattr(wire, name) for name in cls.model_fields})


def check_fields(request: BaseModel, action: str, required: str, optional: str) -> None:
    """Check that an action's required fields are given, and no others than these and the optional ones.

    Args:
        required, optional: names separated by spaces. `action` and `task_id` are always optional.

    Raises:
        ValueError: names the fields that are missing, or that belong to another action.
    """
    given = {name for name in request.model_fields_set if getattr(request, name) != type(request).model_fields[name].default}
    needed = set(required.split())
    missing = sorted(needed - given)
    if missing:
        raise ValueError(f'action "{action}" needs {", ".join(missing)}')
    known = [*required.split(), *optional.split()]
    surplus = sorted(given - {"action", "task_id", *known})
    if surplus:
        fields = f"its fields are {', '.join(known)}" if known else "it needs no field"
        raise ValueError(f'action "{action}" takes no {", ".join(surplus)}: {fields}')


_MAX_REPORTED_FAULTS = 10


def _invalid_request(error: ValidationError, model: type[BaseModel]) -> PtyctlError:
    faults = field_faults(error, model)
    reported = [{"field": fault.path, "problem": fault.problem} for fault in faults[:_MAX_REPORTED_FAULTS]]
    problems = [f"{fault['field']}: {fault['problem']}" if fault["field"] else fault["problem"] for fault in reported]
    if len(faults) > len(reported):
        problems.append(f"and at least {len(faults) - len(reported)} more")  # of a list, only the first one is found
    return invalid("; ".join(problems), hint=_fields_hint(faults, model), fields=reported)


def _fields_hint(faults: list[FieldFault], model: type[BaseModel]) -> str | None:
    """Return the names of a request's fields, if one of the faults is an unknown field."""
    if not any(fault.unknown and len(fault.location) == 1 for fault in faults):
        return None
    listed = [name for name, field in model.model_fields.items() if Unlisted not in field.metadata]
    return f"the fields are {', '.join(listed)}"

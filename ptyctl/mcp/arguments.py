"""The arguments of a tool call as models send them, in the form that the request's model accepts.

Clients and models differ from the schema in three ways whose meaning is certain: arrays and objects as JSON text, numbers for
texts, and an empty value in place of an absent one. The types of the model decide all of them; no tool has rules of its own.
Numbers and booleans as text are accepted by the models themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from ptyctl.api.errors import PtyctlError
from ptyctl.api.model import MAY_BE_EMPTY, Request

R = TypeVar("R", bound=Request)
T = TypeVar("T")
#: Numbers of this size are accepted as texts: ids, ports, times and cursors.
MAX_NUMBER_BITS = 128
#: The names of fields from the outermost object to one field.
_Path = tuple[str, ...]


def read_request(model: type[R], arguments: dict[str, Any]) -> R:
    """Validate the arguments of a tool call.

    Raises:
        PtyctlError: as `Request.of`.
    """
    shaped = shape(model.model_fields, arguments)
    return without_empty(model.model_fields, shaped, model.of, PtyctlError)


def shape(fields: Mapping[str, FieldInfo], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of an object in the types of its fields, as far as their meaning is certain.

    Unknown names and values of no certain meaning stay as they are: the model refuses them. An empty text in an optional field
    is left out, unless the type has `MAY_BE_EMPTY`.
    """
    shaped = {}
    for name, value in arguments.items():
        if (field := fields.get(name)) is None:
            shaped[name] = value
            continue
        kinds = list(_kinds(field.annotation, *field.metadata))
        new = _shape_value(kinds, value)
        if new == "" and not field.is_required() and not any(may_be_empty for _, may_be_empty in kinds):
            continue
        shaped[name] = new
    return shaped


def without_empty(
    fields: Mapping[str, FieldInfo],
    arguments: dict[str, Any],
    read: Callable[[dict[str, Any]], T],
    refusal: type[Exception],
) -> T:
    """Return the request of an object. If it is refused, leave out the empty values without which it is accepted.

    0 and "" remain where they are values: an empty value that the model accepts is never left out.

    Args:
        read: makes the request, or raises `refusal`.
    """
    try:
        return read(arguments)
    except refusal:
        empty = list(_empty_fields(fields, arguments))
        if not empty:
            raise
    found = read(_without(arguments, empty))  # raises what remains to be corrected
    for path in list(empty):
        fewer = [other for other in empty if other != path]
        try:
            found = read(_without(arguments, fewer))
        except refusal:
            continue
        empty = fewer
    return found


def _shape_value(kinds: list[tuple[Any, bool]], value: Any) -> Any:
    """Return a value in one of the types that accept it; the same value if none certainly does."""
    types = [kind for kind, _ in kinds]
    takes_text = any(kind in (str, SecretStr) for kind in types)
    if isinstance(value, str):
        return _shape_text(kinds, value, takes_text=takes_text)
    if isinstance(value, int) and not isinstance(value, bool):
        is_text = takes_text and not any(kind in (int, float) for kind in types)
        return str(value) if is_text and value.bit_length() <= MAX_NUMBER_BITS else value
    if isinstance(value, list):
        arrays = [kind for kind in types if get_origin(kind) is tuple]
        items = list(_kinds(get_args(arrays[0])[0])) if arrays else []
        return [_shape_value(items, item) for item in value] if arrays else value
    if isinstance(value, dict):
        for kind in types:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                return shape(kind.model_fields, value)
            if get_origin(kind) is dict:
                members = list(_kinds(get_args(kind)[1]))
                return {name: _shape_value(members, member) for name, member in value.items()}
    return value


def _shape_text(kinds: list[tuple[Any, bool]], text: str, *, takes_text: bool) -> Any:
    """Return the array, object, null or boolean of a JSON text, if the type has it; otherwise the text."""
    start = text.lstrip()[:1]
    if start and start not in "[{" and takes_text:
        return text
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    types = [kind for kind, _ in kinds]
    if isinstance(value, list) and any(get_origin(kind) is tuple for kind in types):
        return _array_of_texts(_shape_value(kinds, value), text) if takes_text else _shape_value(kinds, value)
    if isinstance(value, dict) and any(_is_object(kind) for kind in types):
        return _shape_value(kinds, value)
    if value is None and not takes_text:
        return None
    choices = [choice for kind in types if get_origin(kind) is Literal for choice in get_args(kind)]
    return value if isinstance(value, bool) and value in choices else text


def _array_of_texts(items: list[Any], text: str) -> Any:
    """Return an array for a type that takes a text too, if all items are texts."""
    return items if all(isinstance(item, str) for item in items) else text


def object_types(field: FieldInfo) -> list[type[BaseModel]]:
    """Return the models that a field accepts."""
    return [kind for kind, _ in _kinds(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _is_object(kind: Any) -> bool:
    return get_origin(kind) is dict or (isinstance(kind, type) and issubclass(kind, BaseModel))


def _kinds(annotation: Any, *metadata: object) -> Iterator[tuple[Any, bool]]:
    """Yield the types of an annotation without null, each with whether its empty text is a value."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        yield from _kinds(inner, *metadata, *more)
    elif origin in (Union, UnionType):
        for option in get_args(annotation):
            yield from _kinds(option, *metadata)
    elif annotation is not type(None):
        yield annotation, MAY_BE_EMPTY in metadata


def _empty_fields(fields: Mapping[str, FieldInfo], arguments: Mapping[str, Any], path: _Path = ()) -> Iterator[_Path]:
    """Yield the optional fields without a value: empty ones, and in an object those that have their default.

    An object without any other field is empty itself.
    """
    for name, value in arguments.items():
        field = fields.get(name)
        if field is None or field.is_required():
            continue
        if isinstance(value, dict) and value:
            models = object_types(field)
            members = list(_empty_fields(models[0].model_fields, value, (*path, name))) if models else []
            yield from [(*path, name)] if len(members) == len(value) else members
        elif _is_empty(field, value, is_member=bool(path)) or (path and value == field.default):
            yield (*path, name)


def _is_empty(field: FieldInfo, value: Any, *, is_member: bool) -> bool:
    """Return whether a value may stand for an absent one: "0" is a number, unless the field is input for a terminal.

    False in an object may differ from its default.
    """
    if isinstance(value, bool):
        return not value and not is_member
    if value == "0":
        return not any(may_be_empty for _, may_be_empty in _kinds(field.annotation, *field.metadata))
    return value is None or (isinstance(value, (str, int, float, list, dict)) and not value)


def _without(arguments: Mapping[str, Any], paths: list[_Path]) -> dict[str, Any]:
    """Return an object without these fields."""
    names = {path[0] for path in paths if len(path) == 1}
    kept = {name: value for name, value in arguments.items() if name not in names}
    for name in {path[0] for path in paths} - names:
        kept[name] = _without(kept[name], [path[1:] for path in paths if path[0] == name])
    return kept

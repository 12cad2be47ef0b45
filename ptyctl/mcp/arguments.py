"""The arguments of a tool call as models send them, in the form that the request's model accepts.

Clients and models differ from the schema in ways whose meaning is certain: arrays and objects as JSON text, the only item of an
array without the array, numbers for texts, and an empty value in place of an absent one. The types of the model decide all of
them; no tool has rules of its own.
Numbers and booleans as text are accepted by the models themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from ptyctl.api.errors import PtyctlError
from ptyctl.api.model import MAY_BE_EMPTY, WORDS, Request, field_kinds

R = TypeVar("R", bound=Request)
T = TypeVar("T")
#: Numbers of this size are accepted as texts: ids, ports, times and cursors.
MAX_NUMBER_BITS = 128
#: The types of a field, each with its metadata.
_Kinds = list[tuple[Any, tuple[object, ...]]]
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
        kinds = list(field_kinds(field.annotation, *field.metadata))
        new = _shape_value(kinds, value)
        if new == "" and not field.is_required() and not _may_be_empty(kinds):
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


def _shape_value(kinds: _Kinds, value: Any) -> Any:
    """Return a value in one of the types that accept it; the same value if none certainly does."""
    types = [kind for kind, _ in kinds]
    takes_text = _takes_text(types)
    if isinstance(value, str):
        value = _shape_text(kinds, value, takes_text=takes_text)
    elif isinstance(value, int) and not isinstance(value, bool):
        is_text = takes_text and not any(kind in (int, float) for kind in types)
        value = str(value) if is_text and value.bit_length() <= MAX_NUMBER_BITS else value
    elif isinstance(value, list):
        arrays = [kind for kind in types if get_origin(kind) is tuple]
        items = list(field_kinds(get_args(arrays[0])[0])) if arrays else []
        return [_shape_value(items, item) for item in value] if arrays else value
    elif isinstance(value, dict):
        value = _shape_object(types, value)
    is_alone = value and not isinstance(value, (list, bool)) and [get_origin(kind) for kind in types] == [tuple]
    return _shape_only_item(*kinds[0], value) if is_alone else value


def _shape_object(types: list[Any], value: dict[str, Any]) -> dict[str, Any]:
    for kind in types:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return shape(kind.model_fields, value)
        if get_origin(kind) is dict:
            members = list(field_kinds(get_args(kind)[1]))
            return {name: _shape_value(members, member) for name, member in value.items()}
    return value


def _shape_only_item(array: Any, metadata: tuple[object, ...], value: Any) -> Any:
    """Return the array of which a value is certainly the only item; the same value if it is not: the model refuses it.

    A text that begins as an array does is one that cannot be read, and a text in place of words may be several.
    """
    kinds = list(field_kinds(get_args(array)[0]))
    item = _shape_value(kinds, value)
    if not isinstance(item, str):
        return [item] if isinstance(item, dict) and any(_is_object(kind) for kind, _ in kinds) else value
    is_word = item.split() == [item] and not any(quote in item for quote in "'\"\\")
    is_item = _takes_text(kind for kind, _ in kinds) and item.lstrip()[:1] != "["
    return [item] if is_item and (is_word or WORDS not in metadata) else value


def _shape_text(kinds: _Kinds, text: str, *, takes_text: bool) -> Any:
    """Return the array, object, null or boolean of a JSON text, if the type has it; otherwise the text."""
    start = text.lstrip()[:1]
    if start and start not in "[{" and takes_text:
        return text
    try:
        value = from_json(text, allow_inf_nan=False)
    except (TypeError, ValueError):  # TypeError: a lone surrogate
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


def _takes_text(types: Iterable[Any]) -> bool:
    return any(kind in (str, SecretStr) for kind in types)


def _may_be_empty(kinds: _Kinds) -> bool:
    return any(MAY_BE_EMPTY in metadata for _, metadata in kinds)


def object_types(field: FieldInfo) -> list[type[BaseModel]]:
    """Return the models that a field accepts."""
    return [kind for kind, _ in field_kinds(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _is_object(kind: Any) -> bool:
    return get_origin(kind) is dict or (isinstance(kind, type) and issubclass(kind, BaseModel))


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
    kinds = list(field_kinds(field.annotation, *field.metadata))
    if isinstance(value, bool):
        return not value and not is_member and not any(kind in (int, float) for kind, _ in kinds)
    if value == "0":
        return not _may_be_empty(kinds)
    return value is None or (isinstance(value, (str, int, float, list, dict)) and not value)


def _without(arguments: Mapping[str, Any], paths: list[_Path]) -> dict[str, Any]:
    """Return an object without these fields."""
    names = {path[0] for path in paths if len(path) == 1}
    kept = {name: value for name, value in arguments.items() if name not in names}
    for name in {path[0] for path in paths} - names:
        kept[name] = _without(kept[name], [path[1:] for path in paths if path[0] == name])
    return kept

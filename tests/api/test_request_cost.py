"""Invalid requests are refused at the first faults, whatever the number of items and members that they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

import ptyctl.api.handle
import ptyctl.terminal.request  # noqa: F401
from ptyctl.api.model import MAX_MEMBERS, Request

#: More members than a request may have. Each of them is an invalid value for most fields.
_COUNT = MAX_MEMBERS + 1
_LISTS: dict[str, list[Any]] = {
    "numbers": [1] * _COUNT,
    "texts": ["\0"] * _COUNT,
    "surrogates": ["\ud800"] * _COUNT,
    "objects": [{"a": 1, "b": 2}] * _COUNT,
    "lists": [[]] * _COUNT,
}
_OBJECTS: dict[str, dict[str, Any]] = {
    "numbers by name": {f"k{number}": 1 for number in range(_COUNT)},
    "nulls by name": {f"k{number}": None for number in range(_COUNT)},
}


def requests(base: type[Request] = Request) -> Iterator[type[Request]]:
    for request in base.__subclasses__():
        yield request
        yield from requests(request)


def faults(request: type[Request], arguments: dict[str, Any]) -> int:
    try:
        request.model_validate(arguments)
    except ValidationError as error:
        return error.error_count()
    return 0


@pytest.mark.parametrize("value", [*_LISTS.values(), *_OBJECTS.values()], ids=[*_LISTS, *_OBJECTS])
def test_long_list_or_large_object_in_any_field_causes_few_faults(value: object) -> None:
    seen: set[tuple[str, str]] = set()
    for request in requests():
        for name, field in request.model_fields.items():
            if (key := (name, str(field.annotation))) not in seen:
                seen.add(key)
                assert faults(request, {name: value}) < 20, f"{request.__name__}.{name}"
    assert len(seen) > 100


def test_request_with_too_many_members_is_one_fault() -> None:
    for request in requests():
        for value in _OBJECTS.values():
            assert faults(request, value) == 1, request.__name__

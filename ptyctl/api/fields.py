"""Which fields an action takes: one table for each tool, so that a missing or contradictory field is told by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Fields:
    """An action's own fields. `required` must be given; `optional` may be."""

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


def fields(required: str = "", optional: str = "") -> Fields:
    """Fields from two lists of names, separated by blanks."""
    return Fields(frozenset(required.split()), frozenset(optional.split()))


def check_fields(request: BaseModel, table: Mapping[str, Fields], common: frozenset[str]) -> None:
    """Holds a request with an `action` against its row of the table.

    Raises:
        ValueError: names the fields that are missing, or that belong to another action.
    """
    action: str = request.action  # type: ignore[attr-defined]
    row = table[action]
    given = {name for name in request.model_fields_set if getattr(request, name) != type(request).model_fields[name].default}
    missing = sorted(row.required - given)
    if missing:
        raise ValueError(f'action "{action}" needs {", ".join(missing)}')
    surplus = sorted(given - row.required - row.optional - common)
    if surplus:
        raise ValueError(f'action "{action}" takes no {", ".join(surplus)}')

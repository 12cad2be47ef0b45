"""What holds for a device: the defaults, then its groups, then what it says itself; whoever is nearer to it goes before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError
from typing import Any

Table = Mapping[str, Any]


def merge(tables: Iterable[Table]) -> dict[str, Any]:
    """One table of many. A later value replaces an earlier one, but a table in a table is merged in the same way.

    A secret's table (`{command = […]}`) is one value: half of one and half of another would be no command.
    """
    merged: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            before = merged.get(key)
            if isinstance(before, Mapping) and isinstance(value, Mapping) and "command" not in value:
                value = merge([before, value])
            merged[key] = value
    return merged


def ancestors(names: Iterable[str], groups: Mapping[str, Table]) -> list[str]:
    """The groups in the order in which they are merged: each once, a group's own groups before it, then as they are named.

    Raises:
        KeyError: a group that there is not.
        CycleError: a group that is part of itself; the argument is the way back to it.
    """
    order: list[str] = []
    for name in names:
        _visit(name, groups, (), order)
    return order


def _visit(name: str, groups: Mapping[str, Table], way: tuple[str, ...], order: list[str]) -> None:
    if name in way:
        raise CycleError(" > ".join((*way[way.index(name) :], name)))
    if name in order:
        return
    for parent in groups[name].get("groups") or ():
        _visit(parent, groups, (*way, name), order)
    order.append(name)


def layers(device: Table, defaults: Table, groups: Mapping[str, Table]) -> Iterator[Table]:
    """What is merged into a device, the weakest first.

    Raises:
        KeyError, CycleError: as `ancestors`.
    """
    yield defaults
    for name in ancestors(device.get("groups") or (), groups):
        yield {key: value for key, value in groups[name].items() if key != "groups"}
    yield device

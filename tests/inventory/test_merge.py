"""Merging of defaults, groups and devices."""

from __future__ import annotations

from graphlib import CycleError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.inventory.loader import device_layers, group_order, merge

leaves = st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=2)
keys = st.sampled_from("abc")
tables = st.dictionaries(keys, leaves | st.dictionaries(keys, leaves, max_size=3), max_size=3)


def paths(table: Any) -> dict[tuple[str, ...], Any]:
    """Each leaf by its path; an empty table is a leaf too."""
    found: dict[tuple[str, ...], Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and value:
            found.update({(key, *path): leaf for path, leaf in paths(value).items()})
        else:
            found[(key,)] = value
    return found


@given(st.lists(tables, max_size=4))
def test_last_table_with_a_value_wins(given_tables: list[dict[str, Any]]) -> None:
    merged = merge(given_tables)
    assert merged.keys() == {key for table in given_tables for key in table}
    if given_tables:
        last = paths(given_tables[-1])
        assert {path: leaf for path, leaf in paths(merged).items() if path in last and leaf != {}} == {
            path: leaf for path, leaf in last.items() if leaf != {}
        }


@given(tables, tables, tables)
def test_merge_is_associative(one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]) -> None:
    kinds = [{key: isinstance(value, dict) for key, value in table.items()} for table in (one, two, three)]
    mixed = {key for key in "abc" if len({kind[key] for kind in kinds if key in kind}) > 1}
    for table in (one, two, three):
        for key in mixed:
            table.pop(key, None)
    assert merge([one, two, three]) == merge([merge([one, two]), three]) == merge([one, merge([two, three])])


@given(st.lists(tables, max_size=3))
def test_merge_does_not_change_its_arguments(given_tables: list[dict[str, Any]]) -> None:
    before = repr(given_tables)
    merge(given_tables)
    assert repr(given_tables) == before


def test_secret_table_is_replaced_as_a_whole() -> None:
    weak = {"password": {"command": ["a"], "timeout_s": 1}}
    assert merge([weak, {"password": {"command": ["b"]}}]) == {"password": {"command": ["b"]}}


GROUPS: dict[str, dict[str, Any]] = {
    "all": {"x": 1},
    "campus": {"groups": ["all"], "x": 2},
    "access": {"groups": ["campus"], "y": 3},
    "old": {"groups": ["all"], "y": 4},
}


def test_parent_groups_precede_their_children_once() -> None:
    assert group_order(["access", "old"], GROUPS) == ["all", "campus", "access", "old"]
    assert group_order(["old", "access"], GROUPS) == ["all", "old", "campus", "access"]


def test_device_overrides_groups_and_groups_override_defaults() -> None:
    device = {"groups": ["access", "old"], "z": 5}
    merged = merge(device_layers(device, {"w": 0, "x": 0, "y": 0, "z": 0}, GROUPS))
    assert merged == {"w": 0, "x": 2, "y": 4, "z": 5, "groups": ["access", "old"]}


def test_group_cycle_error_describes_the_cycle() -> None:
    with pytest.raises(CycleError, match="b > c > b"):
        group_order(["a"], {"a": {"groups": ["b"]}, "b": {"groups": ["c"]}, "c": {"groups": ["b"]}})


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.fixed_dictionaries({"groups": st.lists(st.sampled_from("abcdef"), max_size=3)})
    )
)
def test_group_order_has_parents_first_or_raises(groups: dict[str, dict[str, list[str]]]) -> None:
    try:
        order = group_order(list(groups), groups)
    except (CycleError, KeyError):
        return
    assert sorted(order) == sorted(groups)
    for name in order:
        assert all(order.index(parent) < order.index(name) for parent in groups[name]["groups"])

"""Any file content is valid or reported as faults, and no fault repeats a possible secret."""

from __future__ import annotations

from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.inventory.faults import InvalidInventory
from ptyctl.inventory.loader import parse
from ptyctl.inventory.model import ConsoleServer, Defaults, Document, Group, InventoryDevice, JumpHost

SECRET = "hunter2"

names = st.sampled_from(["a", "b", "cs1", "core sw", ""])
leaves = (
    st.sampled_from([SECRET, f"env:{SECRET}!", "env:NAME", "ssh", "telnet", "console", "a", "b", "cs1", "192.0.2.1", ""])
    | st.integers(-1, 70_000)
    | st.booleans()
    | st.floats()
    | st.just(date(2026, 11, 20))
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=4
)


def tables(model: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from([*model.model_fields, "other"]), values, max_size=4)


def named(model: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, tables(model), max_size=2) | values.map(lambda value: {"a": value})


files = st.fixed_dictionaries(
    {},
    optional={
        "defaults": tables(Defaults),
        "groups": named(Group),
        "devices": named(InventoryDevice),
        "console_servers": named(ConsoleServer),
        "jump_hosts": named(JumpHost),
        "other": values,
    },
)


def faults_in(tables: dict[str, Any]) -> list[str] | None:
    """Return the problems of an invalid file; None for a valid one."""
    try:
        contents = parse(tables)
    except InvalidInventory as error:
        return [fault.problem for fault in error.faults]
    return None if contents.devices.keys() == tables.get("devices", {}).keys() else []


@given(files)
def test_any_content_is_valid_or_reported_as_faults_without_secrets(tables: dict[str, Any]) -> None:
    problems = faults_in(tables)
    assert problems is None or problems
    assert not [problem for problem in problems or () if SECRET in problem]


def test_strategy_covers_every_table() -> None:
    assert set(Document.model_fields) == {"defaults", "groups", "devices", "console_servers", "jump_hosts"}

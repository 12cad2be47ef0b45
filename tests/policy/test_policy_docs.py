"""docs/policy.md: its tables are those of the presets, and its policies load.

`python -m tests.policy.test_policy_docs` writes the tables.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ptyctl.policy.policy_file import PRESETS, PolicyTables, preset_text
from ptyctl.policy.rules import When
from tests.policy.preset_tables import render_groups, render_table

from .presets import PLATFORMS, load_text, preset

PAGE = Path(__file__).parents[2] / "docs" / "policy.md"


def table(name: str) -> str:
    rules = [placed.rule for placed in preset(name).rules]
    return render_table(rules, PLATFORMS) if name == "readonly" else render_groups(preset_text(name), rules)


def part(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name}: from the examples of the preset -->\n)(.*?)(?=<!-- end -->)", re.S)


@pytest.mark.parametrize("name", ["readonly", "guarded"])
def test_table_of_the_page_is_that_of_the_preset(name: str) -> None:
    found = part(name).search(PAGE.read_text())
    assert found is not None
    assert found[0].strip() == table(name).strip(), "write the tables: python -m tests.policy.test_policy_docs"


def test_table_has_every_rule_of_guarded() -> None:
    assert {placed.rule.id for placed in preset("guarded").rules} <= set(re.findall(r"^\| `([\w-]+)` ", table("guarded"), re.M))


def test_policies_of_the_page_load() -> None:
    policies = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert policies
    for text in policies:
        assert load_text(text).rules


def test_page_lists_every_key() -> None:
    page = PAGE.read_text()
    keys = [*PolicyTables.model_fields, *PolicyTables.model_fields["rules"].annotation.__args__[0].model_fields]  # type: ignore[union-attr]
    assert [key for key in (*keys, *When.model_fields) if f"`{key}`" not in page] == []


@pytest.mark.parametrize("name", PRESETS)
def test_page_lists_the_settings_of_every_preset(name: str) -> None:
    settings = preset(name).settings
    row = f"| `{name}` | {settings.default} | {settings.programs} | {settings.unparsed} | {settings.unreadable} |"
    assert row in PAGE.read_text()


def _write_tables() -> None:
    page = PAGE.read_text()
    for name in ("readonly", "guarded"):
        found = part(name).search(page)
        assert found is not None
        page = f"{page[: found.start()]}\n{table(name)}\n{page[found.end() :]}"
    PAGE.write_text(page)


if __name__ == "__main__":
    _write_tables()

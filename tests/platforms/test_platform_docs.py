"""docs/platforms.md lists the families with their verification, and every field."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pydantic import BaseModel

from ptyctl.platforms import Platform, Platforms
from ptyctl.platforms.pattern import PagerPattern
from ptyctl.platforms.platform import CliMode, CommandLine, ErrorPatterns, Keys, LoginPatterns, Signs, TerminalSettings

PAGE = (Path(__file__).parents[2] / "docs" / "platforms.md").read_text()


def test_docs_table_lists_families_and_verification() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", PAGE.split("## ")[0], re.M)
    platforms = Platforms().all()
    assert rows == [(name, platform.title, platform.verified or "no") for name, platform in platforms.items()]


def test_docs_explain_every_field() -> None:
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|$", PAGE.split("## A family of your own")[1], re.M)
    fields = [name for cell, _ in rows for name in re.findall(r"`([\w.]+)`", cell)]
    assert {field for field in fields if not field.startswith("modes.")} == set(Platform.model_fields) - {"modes"}
    assert {field for field in fields if field.startswith("modes.")} == {
        f"modes.M.{name}{'.N' if name == 'to' else ''}" for name in CliMode.model_fields
    }
    told = dict(rows)
    parts: dict[str, type[BaseModel]] = {
        "`login`": LoginPatterns, "`errors`": ErrorPatterns, "`keys`": Keys, "`terminal`": TerminalSettings, "`detect`": Signs,
        "`pagers`": PagerPattern, "`command_line`": CommandLine,
    }  # fmt: skip
    for field, model in parts.items():
        assert [name for name in model.model_fields if f"`{name}`" not in told[field]] == []


def test_docs_example_loads(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.M | re.S)
    assert tomllib.loads(example)
    (tmp_path / "lab.toml").write_text(example)
    assert Platforms(tmp_path).get("lab").modes["setup"].config

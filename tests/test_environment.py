"""Unknown PTYCTL_* variables are reported, and those that anything in this repository reads are known."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptyctl.cli import main
from ptyctl.controller.settings import Settings
from ptyctl.environment import PREFIX, SETTINGS, describe_unknown, environment_warnings, unknown_variables

ROOT = Path(__file__).parent.parent
READERS = ("ptyctl", "transports", "tests", "fixtures", "container", ".ci", "Makefile", "pyproject.toml")
NAME = re.compile(r"\bPTYCTL_[A-Z0-9_]*[A-Z0-9]\b")
SUFFIXES = {".py", ".sh", ".bash", ".zsh", ".yaml", ".yml", ".toml", ".js", ""}
TYPO = "PTYCTL_MAX_SESIONS"
#: A number in `ptyctl.api.messages`, a part of names, and the name that the tests misspell.
NO_VARIABLES = {"PTYCTL_ERROR", "PTYCTL_MAX", TYPO}


def source_files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for folder, subfolders, names in os.walk(path):
        subfolders[:] = [name for name in subfolders if name not in ("node_modules", "__pycache__")]
        yield from (Path(folder, name) for name in names)


def test_known_settings_are_the_fields_of_the_settings() -> None:
    assert {PREFIX + name.upper() for name in Settings.model_fields} == SETTINGS


def test_each_variable_that_the_repository_names_is_known() -> None:
    files = (path for name in READERS for path in source_files(ROOT / name))
    texts = (path.read_text("utf-8", "replace") for path in files if path.suffix in SUFFIXES and path != Path(__file__))
    names = {name for text in texts for name in NAME.findall(text)} - NO_VARIABLES
    assert {"PTYCTL_REQUIRE_SERVERS", "PTYCTL_CHROMIUM", "PTYCTL_ZDOTDIR", "PTYCTL_UID"} <= names
    assert unknown_variables(dict.fromkeys(names, "")) == []


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        (TYPO, "PTYCTL_MAX_SESSIONS"),
        ("ptyctl_statedir", "PTYCTL_STATE_DIR"),
        ("PTYCTL_CONF", "PTYCTL_CONFIG"),
        ("PTYCTL_", None),
        ("PTYCTL_COLOUR_OF_THE_SKY", None),
    ],
)
def test_unknown_variable_is_described_with_the_nearest_name(name: str, nearest: str | None) -> None:
    assert unknown_variables({name: "1", "PATH": "", "XPTYCTL_A": "", "_PTYCTL_COMPLETE": ""}) == [name]
    text = describe_unknown(name)
    assert name in text
    assert (f"did you mean {nearest}?" in text) == (nearest is not None)
    assert ("did you mean" in text) == (nearest is not None)


def test_variables_in_the_case_that_is_read_are_known() -> None:
    assert unknown_variables({"ptyctl_max_sessions": "1", "PTYCTL_RUNTIME_DIR": "/x"}) == []
    assert unknown_variables({"ptyctl_runtime_dir": "/x"}) == ["ptyctl_runtime_dir"]  # only settings are read in any case


def test_variable_that_the_inventory_reads_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_LAB_PASSWORD", "x")
    (warning,) = environment_warnings(tmp_path / "missing.toml")
    assert "PTYCTL_LAB_PASSWORD" in warning
    inventory = tmp_path / "devices.toml"
    inventory.write_text('[defaults]\npassword = "env:PTYCTL_LAB_PASSWORD"\n')
    assert environment_warnings(inventory) == []


@pytest.mark.parametrize(
    ("others", "warnings"), [({}, 1), ({"PTYCTL_MAX_SESSIONS": "none"}, 1), ({"_PTYCTL_COMPLETE": "x"}, 0)]
)
def test_start_of_the_command_line_warns_and_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], others: dict[str, str], warnings: int
) -> None:
    for name, value in {TYPO: "7", **others}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["ptyctl", "version"])
    monkeypatch.setattr("ptyctl.cli.run", lambda arguments: 0)
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", warnings)
    assert captured.err.count(f"ptyctl: the environment variable {TYPO} has no effect") == warnings

"""`ptyctl platforms` lists the families and checks the user's files."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ptyctl.cli.main import app
from ptyctl.platforms import Platforms
from tests.cli.command_line import is_one_line, ptyctl

SMALL = 'title = "Mine"\nhome = ["cli"]\nmodes = { cli = {} }\n'


def test_all_families_are_listed_with_what_they_were_run_against(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(app, ["platforms"])
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == list(Platforms().names())
    assert "FRR 8.4 zebra over Telnet" in result.stdout


def test_the_users_own_are_listed_and_faults_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_PLATFORMS_DIR", str(tmp_path))
    (tmp_path / "mine.toml").write_text(SMALL)
    assert "Mine" in CliRunner().invoke(app, ["platforms"]).stdout
    (tmp_path / "wrong.toml").write_text(SMALL + "colour = 7\n")
    result = CliRunner().invoke(app, ["platforms"])
    assert result.exit_code == 1
    assert "Mine" in result.stdout
    assert f"{tmp_path / 'wrong.toml'}: colour: Extra inputs" in result.stderr


def test_a_folder_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_PLATFORMS_DIR", str(tmp_path / "missing"))
    ran = ptyctl("platforms")
    assert ran.code in (2, 6)
    assert is_one_line(ran.err)
    assert "cannot be read: No such file or directory" in ran.err

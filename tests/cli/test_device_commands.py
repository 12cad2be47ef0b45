"""`ptyctl devices`, `doctor` and `platforms`: output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptyctl.controller.settings import load_settings
from ptyctl.platforms import Platforms
from tests.cli.command_line import is_one_line, ptyctl

INVENTORY = """
[defaults]
username = "netops"
password = "env:SW_PASSWORD"

[console_servers.cs1]
host = "192.0.2.9"
protocol = "telnet"
base_port = 2000

[devices.core]
console = { server = "cs1", port = 7 }
platform = "cisco_xr"
enable_secret = { command = ["pass", "show", "net/enable"] }

[devices.edge]
host = "192.0.2.1"
protocol = "ssh"
"""
PLATFORM = 'title = "Mine"\nhome = ["cli"]\nmodes = { cli = {} }\n'


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "devices.toml"
    path.write_text(INVENTORY)
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(path))
    monkeypatch.setenv("SW_PASSWORD", "the-secret-itself")
    return path


@pytest.fixture
def platforms_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PTYCTL_PLATFORMS_DIR", str(tmp_path))
    (tmp_path / "mine.toml").write_text(PLATFORM)
    return tmp_path


@pytest.mark.usefixtures("inventory")
def test_devices_lists_references_instead_of_secrets() -> None:
    result = ptyctl("devices")
    assert result.code == 0
    rows = {line.split()[0]: line for line in result.out.splitlines()}
    assert "line 7 of cs1" in rows["core"]
    assert "env:SW_PASSWORD" in rows["edge"]
    assert "the-secret-itself" not in result.out


@pytest.mark.usefixtures("inventory")
def test_devices_json_has_fields_without_secrets() -> None:
    result = ptyctl("devices", "--json")
    core, edge = json.loads(result.out)
    assert (core["device"], core["platform"], core["session_type"]) == ("core", "cisco_xr", "console")
    assert core["enable_secret"] == "the command pass"
    assert (edge["host"], edge["protocol"], edge["username"]) == ("192.0.2.1", "ssh", "netops")
    assert "the-secret-itself" not in result.out


def test_devices_invalid_inventory_reports_field(inventory: Path) -> None:
    inventory.write_text(INVENTORY + "colour = 7\n")
    result = ptyctl("devices")
    assert result.code == 2
    assert is_one_line(result.err)
    assert "devices.edge.colour" in result.err


@pytest.mark.usefixtures("inventory")
def test_doctor_failed_step_exits_with_1() -> None:
    result = ptyctl("doctor", "edg")
    assert result.code == 1
    assert [line.split()[:2] for line in result.out.splitlines()] == [["ok", "storage"], ["ok", "policy"], ["FAIL", "name"]]
    assert "edge" in result.out
    steps = ptyctl("doctor", "edg", "--json").json
    assert [(step["step"], step["ok"]) for step in steps] == [("storage", True), ("policy", True), ("name", False)]


@pytest.mark.usefixtures("inventory")
def test_doctor_warns_of_an_unknown_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_MAX_SESIONS", "7")
    first = ptyctl("doctor", "edg").out.splitlines()[0]
    assert first.split()[:3] == ["ok", "settings", "warning:"]
    assert "did you mean PTYCTL_MAX_SESSIONS?" in first


def test_doctor_without_a_device_names_damaged_files() -> None:
    folder = load_settings().state_dir / "sessions" / "20260101-000000-00000001"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "blocks.jsonl.damaged").touch()
    result = ptyctl("doctor")
    steps = [line.split()[:2] for line in result.out.splitlines()]
    assert (result.code, steps) == (0, [["ok", "storage"], ["ok", "files"], ["ok", "policy"]])
    assert f"warning: {folder}/blocks.jsonl.damaged was damaged; look into the file" in result.out


def test_doctor_reports_a_faulty_policy(inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text("\nrules = 5")
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "mine.toml"))
    result = ptyctl("doctor", "edge")
    assert (result.code, result.out.splitlines()[-1].split()[:2]) == (1, ["FAIL", "policy"])
    assert "mine.toml:2: rules: " in result.out


@pytest.mark.usefixtures("inventory")
@pytest.mark.parametrize(("program", "outcome"), [("true", "ok"), ("/missing/program", "FAIL")])
def test_doctor_checks_notify_command_and_continues(monkeypatch: pytest.MonkeyPatch, program: str, outcome: str) -> None:
    monkeypatch.setenv("PTYCTL_APPROVALS", json.dumps({"notify_command": [program]}))
    result = ptyctl("doctor", "edg")
    steps = {line.split()[1]: line.split()[0] for line in result.out.splitlines()}
    assert (steps["approvals"], list(steps)[-1]) == (outcome, "name")
    assert program in result.out


def test_platforms_lists_all_families() -> None:
    result = ptyctl("platforms")
    assert result.code == 0
    rows = [line.split() for line in result.out.splitlines()[1:]]
    assert [row[0] for row in rows] == list(Platforms().names())
    assert "FRR 8.4 zebra over Telnet" in result.out


def test_platforms_lists_user_files_and_reports_faults(platforms_dir: Path) -> None:
    assert "Mine" in ptyctl("platforms").out
    (platforms_dir / "wrong.toml").write_text(PLATFORM + "colour = 7\n")
    result = ptyctl("platforms")
    assert result.code == 1
    assert "Mine" in result.out
    assert f"{platforms_dir / 'wrong.toml'}: colour: unknown field" in result.err


def test_platforms_json_has_fields_or_fault(platforms_dir: Path) -> None:
    (platforms_dir / "wrong.toml").write_text("colour = 7\n")
    result = ptyctl("platforms", "--json")
    families = {row["family"]: row for row in result.json}
    assert result.code == 1
    assert (families["mine"]["own"], families["mine"]["title"]) == (True, "Mine")
    assert families["frr"]["own"] is False
    assert "FRR" in families["frr"]["verified"]
    assert "colour" in families["wrong"]["fault"]


def test_platforms_missing_directory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_PLATFORMS_DIR", str(tmp_path / "missing"))
    result = ptyctl("platforms")
    assert result.code in (2, 6)
    assert is_one_line(result.err)
    assert "cannot be read: No such file or directory" in result.err

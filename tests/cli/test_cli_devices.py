"""`ptyctl devices`, `doctor` and `log`: what they print, and their exit codes."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ptyctl.api.handle import SessionHandle
from ptyctl.cli.main import app
from ptyctl.controller import LocalController
from ptyctl.controller.settings import load_settings
from tests.cli.command_line import is_one_line, ptyctl
from tests.controller.served import served

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


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "devices.toml"
    path.write_text(INVENTORY)
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(path))
    monkeypatch.setenv("SW_PASSWORD", "the-secret-itself")
    monkeypatch.setenv("COLUMNS", "200")
    return path


@pytest.mark.usefixtures("inventory")
def test_devices_are_listed_without_secrets() -> None:
    result = CliRunner().invoke(app, ["devices"])
    assert result.exit_code == 0
    rows = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert "line 7 of cs1" in rows["core"]
    assert "env:SW_PASSWORD" in rows["edge"]
    assert "the-secret-itself" not in result.stdout


@pytest.mark.usefixtures("inventory")
def test_devices_as_json() -> None:
    result = CliRunner().invoke(app, ["devices", "--json"])
    core, edge = json.loads(result.stdout)
    assert (core["device"], core["platform"], core["session_type"]) == ("core", "cisco_xr", "console")
    assert core["enable_secret"] == "the command pass"
    assert (edge["host"], edge["protocol"], edge["username"]) == ("192.0.2.1", "ssh", "netops")
    assert "the-secret-itself" not in result.stdout


def test_a_wrong_inventory_is_told(inventory: Path) -> None:
    inventory.write_text(INVENTORY + "colour = 7\n")
    ran = ptyctl("devices")
    assert ran.code == 2
    assert is_one_line(ran.err)
    assert "devices.edge.colour" in ran.err


@pytest.mark.usefixtures("inventory")
def test_the_doctor_ends_with_1_where_a_step_fails() -> None:
    result = CliRunner().invoke(app, ["doctor", "edg"])
    assert result.exit_code == 1
    assert result.stdout.startswith("FAIL  name")
    assert "edge" in result.stdout
    (step,) = json.loads(CliRunner().invoke(app, ["doctor", "edg", "--json"]).stdout)
    assert (step["step"], step["ok"]) == ("name", False)


def test_families_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTYCTL_PLATFORMS_DIR", str(tmp_path))
    (tmp_path / "mine.toml").write_text('title = "Mine"\nhome = ["cli"]\nmodes = { cli = {} }\n')
    (tmp_path / "wrong.toml").write_text("colour = 7\n")
    result = CliRunner().invoke(app, ["platforms", "--json"])
    told = {row["family"]: row for row in json.loads(result.stdout)}
    assert result.exit_code == 1
    assert (told["mine"]["own"], told["mine"]["title"]) == (True, "Mine")
    assert told["frr"]["own"] is False
    assert "FRR" in told["frr"]["verified"]
    assert "colour" in told["wrong"]["fault"]


async def test_the_log_of_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("PTYCTL_RUNTIME_DIR", str(folder))
    async with LocalController(load_settings()) as controller, served(controller, folder):
        command = ("sh", "-c", r"printf 'one\r\ntwo \033[31mred\033[0m\r\n'")
        handle = await SessionHandle.open(
            controller, protocol="local", command=command, session_type="console", device_id="rack-1"
        )
        await handle.read(until_regex="never", timeout_ms=20_000)
        plain = await asyncio.to_thread(CliRunner().invoke, app, ["log", "rack-1"])
        assert (plain.exit_code, plain.stdout) == (0, "one\ntwo red\n")
        timed = await asyncio.to_thread(CliRunner().invoke, app, ["log", handle.session_id, "--console"])
        shape = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d  (.*)")
        assert [match[1] for line in timed.stdout.splitlines() if (match := shape.fullmatch(line))] == ["one", "two red"]
        rows = await asyncio.to_thread(CliRunner().invoke, app, ["log", handle.session_id, "--json"])
        assert [json.loads(line)["text"] for line in rows.stdout.splitlines()] == ["one", "two red"]
        missing = await asyncio.to_thread(ptyctl, "log", "nope")
        assert missing.code == 3
        assert is_one_line(missing.err)

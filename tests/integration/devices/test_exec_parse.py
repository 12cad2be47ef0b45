"""exec(parse=true): rows from a template or from JSON output, or the reason for their absence."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ntc_templates
import pytest
from textfsm import clitable

from ptyctl import LocalController
from ptyctl.api.handle import SessionHandle
from ptyctl.platforms import Platforms
from ptyctl.session.calls.output_parser import may_show_json, parse
from tests.controller.session_calls import BASH, PATIENCE_MS


@pytest.fixture
async def console(controller: LocalController) -> SessionHandle:
    return await SessionHandle.open(controller, device="sw-console", acquire_lock=True, task_id="t")


@pytest.mark.parametrize("cmd", ["show ip interface brief", "sh ip int br"])
async def test_exec_parse_returns_rows_of_template(console: SessionHandle, cmd: str) -> None:
    reply = await console.exec(cmd, parse=True)
    assert reply.template == "cisco_ios_show_ip_interface_brief.textfsm"
    assert reply.message is None
    assert reply.parsed
    for row, line in zip(reply.parsed, reply.stdout.splitlines()[1:], strict=True):
        assert [row["interface"], row["ip_address"]] == line.split()[:2]


async def test_exec_parse_uses_whole_output_when_reply_is_truncated(console: SessionHandle) -> None:
    whole = await console.exec("show interfaces status", parse=True)
    cut = await console.exec("show interfaces status", parse=True, max_output_bytes=256)
    assert cut.output_truncated
    assert cut.parsed == whole.parsed
    assert whole.parsed


@pytest.mark.parametrize(
    ("cmd", "why"),
    [("show clock detail nonsense", "refused"), ("show running-config", "no template for 'show running-config'")],
)
async def test_exec_parse_failure_reports_reason_and_output(console: SessionHandle, cmd: str, why: str) -> None:
    reply = await console.exec(cmd, parse=True)
    assert (reply.parsed, reply.template) == (None, None)
    assert why in (reply.message or "")
    assert reply.stdout


async def test_exec_parse_without_platform_reports_reason(controller: LocalController) -> None:
    shell = await SessionHandle.open(controller, protocol="local", command=BASH)
    reply = await shell.exec("echo hi", parse=True)
    assert (reply.stdout, reply.parsed) == ("hi\n", None)
    assert "no platform" in (reply.message or "")


async def test_exec_parse_of_running_command_parses_at_its_end(controller: LocalController) -> None:
    shell = await SessionHandle.open(controller, protocol="local", command=BASH)
    reply = await shell.exec("echo ready; read line", parse=True, until_regex="ready", timeout_ms=PATIENCE_MS)
    assert "block_id" in (reply.message or "")
    await shell.write("x\n")
    assert "no platform" in ((await shell.wait(reply.block_id, parse=True, timeout_ms=PATIENCE_MS)).message or "")


JSON = {"arista_eos": "show version | json", "cisco_nxos": "show version | json", "frr": "show version json"}


@pytest.mark.parametrize("name", sorted(JSON))
def test_parse_accepts_json_output(name: str) -> None:
    platform = Platforms().get(name)
    value = {"version": "4.30", "nested": [{"a": 1}]}
    assert parse(platform, JSON[name], json.dumps(value, indent=1)).rows == [value]
    assert parse(platform, JSON[name], json.dumps([value, value])).rows == [value, value]
    assert parse(platform, JSON[name], "[1]").rows == [{"value": 1}]
    assert "% Unknown" in (parse(platform, JSON[name], "% Unknown command\n").why or "")


@pytest.mark.parametrize(
    ("cmd", "may"),
    [
        ("show version", True),
        ("sh ver", True),
        ("display version", True),
        ("s", False),
        ("reload", False),
        ("shutdown", False),
        ("show run | include x", False),
        ("show version | json", False),
        ("show a\nshow b", False),
        ("", False),
    ],
)
def test_json_variant_is_requested_for_show_commands_only(cmd: str, may: bool) -> None:
    assert may_show_json(cmd, " | json") is may


def test_templates_exist_for_every_family_that_names_them() -> None:
    table = clitable.CliTable("index", str(Path(ntc_templates.__file__).parent / "templates"))
    known = [row["Platform"] for row in table.index.compiled]
    for name, platform in Platforms().all().items():
        wanted = platform.ntc_templates
        assert wanted is None or any(pattern.fullmatch(wanted) for pattern in known), name


def test_parse_without_ntc_templates_names_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ntc_templates", None)
    assert "pip install 'ptyctl[parse]'" in (parse(Platforms().get("cisco_ios"), "show version", "x").why or "")

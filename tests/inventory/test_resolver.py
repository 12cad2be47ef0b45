"""Resolving a device name to a target."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.api.session import SessionRequest
from ptyctl.inventory import Target
from tests.inventory.inventory_file import inventory, script

FILE = r"""
[defaults]
username = "netops"
password = "env:SW_PASSWORD"
platform = "cisco_ios"

[groups.access]
protocol = "ssh"
enable_secret = "env:SW_ENABLE"
ssh_options = { legacy_algorithms = true, keepalive_s = 5 }
login = { answers = [{ match = "license\\? .Y/n.: $", send = "y", enter = false }] }

[jump_hosts.bastion]
host = "192.0.2.1"
port = 2222
username = "hop"
password = "env:HOP_PASSWORD"

[jump_hosts.inner]
host = "192.0.2.2"

[console_servers.cs1]
host = "192.0.2.9"
protocol = "telnet"
base_port = 2000
username = "ports"
password = "env:CS_PASSWORD"
telnet_options = { line_ending = "cr" }

[console_servers.cs2]
host = "192.0.2.10"
protocol = "ssh"
username = "ports:{port}"
password = "env:CS_PASSWORD"
jump = ["bastion"]

[devices.switch-001]
groups = ["access"]
host = "192.0.2.11"
jump = ["bastion", "inner"]
ssh_options = { keepalive_s = 7 }

[devices.old]
protocol = "telnet"
host = "192.0.2.12"
port = 2023
username = "root"
timeouts = { connect_timeout_ms = 5 }

[devices.core-con]
console = { server = "cs1", port = 7 }
platform = "cisco_xr"
device_id = "core"
enable_secret = "env:SW_ENABLE"
pty = { cols = 200 }

[devices.edge-con]
console = { server = "cs2", port = 12 }
"""

SECRETS = {"SW_PASSWORD": "s-sw", "SW_ENABLE": "s-en", "HOP_PASSWORD": "s-hop", "CS_PASSWORD": "s-cs"}


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


async def resolved(folder: Path, name: str) -> Target:
    return await inventory(folder, FILE).resolve(name)


def shown(target: Target) -> list[tuple[str | None, str | None]]:
    return [(login.username, login.password and login.password.get_secret_value()) for login in target.logins]


async def test_ssh_target_has_its_jump_hosts(tmp_path: Path) -> None:
    target = await resolved(tmp_path, "switch-001")
    request = target.request
    assert (request.protocol, request.host, request.port, request.username) == ("ssh", "192.0.2.11", None, "netops")
    assert (request.platform, request.session_type, request.device_id) == ("cisco_ios", None, None)
    assert request.auth is not None
    assert request.auth.password is not None
    assert (request.auth.method, request.auth.password.get_secret_value()) == ("auto", "s-sw")
    assert request.ssh_options is not None
    assert (request.ssh_options.legacy_algorithms, request.ssh_options.keepalive_s) == (True, 7)
    assert target.enable_secret is not None
    assert target.enable_secret.get_secret_value() == "s-en"
    (answer,) = target.options.answers
    assert (answer.send, answer.enter, answer.match.matches("software license? [Y/n]: ")) == ("y", False, True)
    assert target.options.automatic
    assert shown(target) == []
    bastion, inner = target.hops
    assert (bastion.host, bastion.port, bastion.username) == ("192.0.2.1", 2222, "hop")
    assert bastion.auth is not None
    assert bastion.auth.password is not None
    assert bastion.auth.password.get_secret_value() == "s-hop"
    assert (inner.host, inner.auth) == ("192.0.2.2", None)


async def test_telnet_login_is_typed_at_the_terminal(tmp_path: Path) -> None:
    target = await resolved(tmp_path, "old")
    request = target.request
    assert (request.protocol, request.host, request.port) == ("telnet", "192.0.2.12", 2023)
    assert (request.username, request.auth, request.ssh_options) == (None, None, None)
    assert request.timeouts is not None
    assert request.timeouts.connect_timeout_ms == 5
    assert shown(target) == [("root", "s-sw")]
    assert target.hops == ()


async def test_telnet_console_line_has_two_logins(tmp_path: Path) -> None:
    target = await resolved(tmp_path, "core-con")
    request = target.request
    assert (request.protocol, request.host, request.port) == ("telnet", "192.0.2.9", 2007)
    assert (request.session_type, request.device_id, request.platform) == ("console", "core", "cisco_xr")
    assert request.telnet_options is not None
    assert request.telnet_options.line_ending == "cr"
    assert request.pty is not None
    assert request.pty.cols == 200
    assert shown(target) == [("ports", "s-cs"), ("netops", "s-sw")]


async def test_ssh_console_line_is_selected_by_username(tmp_path: Path) -> None:
    target = await resolved(tmp_path, "edge-con")
    assert (target.request.protocol, target.request.username, target.request.port) == ("ssh", "ports:12", None)
    assert (target.request.session_type, target.request.device_id) == ("console", "edge-con")
    assert target.request.auth is not None
    assert target.request.auth.password is not None
    assert target.request.auth.password.get_secret_value() == "s-cs"
    assert shown(target) == [("netops", "s-sw")]
    assert [hop.host for hop in target.hops] == ["192.0.2.1"]


@pytest.mark.parametrize("name", ["switch-001", "old", "core-con", "edge-con"])
async def test_repr_and_dump_contain_no_secret(name: str, tmp_path: Path) -> None:
    found = inventory(tmp_path, FILE)
    target = await found.resolve(name)
    said = repr(target) + str(target) + target.request.model_dump_json() + repr(await found.devices()) + repr(vars(found))
    assert not [secret for secret in SECRETS.values() if secret in said]


async def test_secret_referenced_twice_is_fetched_once(tmp_path: Path) -> None:
    program = script(tmp_path, f"echo x >> {tmp_path}/count; echo s-cmd")
    reference = f'{{ command = ["{program}"], timeout_s = 20 }}'
    text = f'[devices.a]\nprotocol = "telnet"\nhost = "h"\npassword = {reference}\nenable_secret = {reference}\n'
    target = await inventory(tmp_path, text).resolve("a")
    assert target.enable_secret == target.logins[0].password
    assert (tmp_path / "count").read_text() == "x\n"


async def test_missing_secret_error_names_device_and_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CS_PASSWORD")
    with pytest.raises(PtyctlError, match=r"console_servers\.cs1\.password \(env:CS_PASSWORD\): is not set"):
        await resolved(tmp_path, "core-con")


class TestOpenedBy:
    async def test_callers_other_fields_are_kept(self, tmp_path: Path) -> None:
        target = await resolved(tmp_path, "core-con")
        asked = SessionRequest.of(
            {
                "action": "open",
                "device": "core-con",
                "acquire_lock": True,
                "task_id": "t",
                "pty": {"rows": 9},
                "platform": "cisco_xr",
            }
        )
        request = target.request_for(asked)
        assert (request.device, request.host, request.acquire_lock, request.task_id) == (None, "192.0.2.9", True, "t")
        assert request.pty is not None
        assert (request.platform, request.pty.rows) == ("cisco_xr", 9)

    async def test_another_platform_than_that_of_the_inventory_is_refused(self, tmp_path: Path) -> None:
        target = await resolved(tmp_path, "switch-001")
        for platform in ("frr", "auto"):
            with pytest.raises(PtyctlError, match="sets the platform of device switch-001: cisco_ios") as caught:
                target.request_for(SessionRequest.of({"action": "open", "device": "switch-001", "platform": platform}))
            assert (caught.value.code, caught.value.details["fields"]) == (ErrorCode.INVALID_ARGUMENT, ["platform"])

    @pytest.mark.parametrize("line", ["", 'platform = "auto"'])
    async def test_platform_that_the_inventory_does_not_name_may_be_given(self, line: str, tmp_path: Path) -> None:
        target = await inventory(tmp_path, f'[devices.a]\nprotocol = "telnet"\nhost = "h"\n{line}\n').resolve("a")
        request = target.request_for(SessionRequest.of({"action": "open", "device": "a", "platform": "frr"}))
        assert request.platform == "frr"

    @pytest.mark.parametrize(
        "field",
        [
            {"host": "203.0.113.9"},
            {"port": 1},
            {"username": "x"},
            {"auth": {"password": "hunter2"}},
            {"ssh_options": {"host_key_policy": "disabled"}},
            {"session_type": "normal"},
        ],
        ids=lambda field: next(iter(field)),
    )
    async def test_address_and_login_fields_of_the_caller_are_refused(self, field: dict[str, object], tmp_path: Path) -> None:
        target = await resolved(tmp_path, "switch-001")
        with pytest.raises(PtyctlError, match="sets the address and the login") as caught:
            target.request_for(SessionRequest.of({"action": "open", "device": "switch-001", **field}))
        assert caught.value.code is ErrorCode.INVALID_ARGUMENT
        assert caught.value.hint == f"leave out {next(iter(field))}"
        assert "hunter2" not in repr(caught.value.payload())

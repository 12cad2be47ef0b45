"""`ptyctl doctor`: the first failing check and its message, without secrets."""

from __future__ import annotations

import errno
import json
import os
from typing import Any

import pytest

from ptyctl.controller.devices import CheckResult, Doctor
from ptyctl.simulator import SimulatedSwitch
from tests.integration.devices.switch_inventory import ENABLE, PASSWORD, SwitchInventory

ALL = ["storage", "policy", "name", "credentials", "network", "connection", "login", "prompt", "mode", "paging"]


def check_text(check: CheckResult) -> str:
    """Return the result and the hint of a check."""
    return f"{check.result}; {check.hint}" if check.hint else check.result


async def run_doctor(inventory: SwitchInventory, device: str, **settings: Any) -> list[CheckResult]:
    checks = [check async for check in Doctor(inventory.settings(**settings), device).checks()]
    for check in checks:
        assert PASSWORD not in check_text(check)
        assert ENABLE not in check_text(check)
    return checks


@pytest.mark.parametrize("device", ["sw-telnet", "sw-console", "sw-ssh"])
async def test_doctor_on_working_device_passes_all_checks(inventory: SwitchInventory, device: str) -> None:
    checks = await run_doctor(inventory, device)
    assert [(check.name, check.ok) for check in checks] == [(name, True) for name in ALL]
    results = {check.name: check_text(check) for check in checks}
    assert "enable secret" in results["credentials"]
    assert results["prompt"] == "'switch-001#'"
    assert results["mode"] == "privileged"
    assert "terminal length 0" in results["paging"]
    assert not (inventory.folder / "state").exists()  # nothing is stored


async def assert_failing_check(inventory: SwitchInventory, device: str, name: str, *parts: str) -> None:
    """Assert that check `name` fails with these parts in its message, after all earlier checks passed."""
    checks = await run_doctor(inventory, device)
    assert [(check.name, check.ok) for check in checks[:-1]] == [(before, True) for before in ALL[: ALL.index(name)]]
    assert (checks[-1].name, checks[-1].ok) == (name, False)
    assert [part for part in parts if part not in check_text(checks[-1])] == []


async def test_doctor_state_directory_without_space_fails_storage(
    inventory: SwitchInventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.posix_fallocate", full)
    await assert_failing_check(inventory, "sw-telnet", "storage", "No space left", "free disk space")


async def test_doctor_unknown_name_suggests_similar_device(inventory: SwitchInventory) -> None:
    await assert_failing_check(inventory, "sw-telne", "name", "sw-telnet")


async def test_doctor_missing_secret_fails_credentials(inventory: SwitchInventory) -> None:
    (inventory.folder / "secrets" / "password").unlink()
    await assert_failing_check(inventory, "sw-telnet", "credentials", "devices.sw-telnet.password", "file:secrets/password")


async def test_doctor_readable_secret_fails_credentials(inventory: SwitchInventory) -> None:
    (inventory.folder / "secrets" / "password").chmod(0o644)
    await assert_failing_check(inventory, "sw-telnet", "credentials", "chmod 600")


async def test_doctor_closed_port_fails_network(inventory: SwitchInventory) -> None:
    inventory.write_devices(telnet=1)
    await assert_failing_check(inventory, "sw-telnet", "network", "127.0.0.1:1", "refused")


async def test_doctor_unexpected_host_key_fails_connection(inventory: SwitchInventory) -> None:
    text = inventory.devices.read_text()
    inventory.devices.write_text(text.replace(inventory.switch.host_key_fingerprint, "SHA256:" + "A" * 43))
    await assert_failing_check(inventory, "sw-ssh", "connection", "key")


async def test_doctor_refused_ssh_credentials_fail_connection(inventory: SwitchInventory) -> None:
    inventory.write_secret("password", "not-the-one")
    await assert_failing_check(inventory, "sw-ssh", "connection", "admin")


async def test_doctor_refused_login_fails_login(inventory: SwitchInventory) -> None:
    inventory.write_secret("password", "not-the-one")
    await assert_failing_check(inventory, "sw-telnet", "login", "refused")


async def test_doctor_refused_enable_secret_fails_mode(inventory: SwitchInventory) -> None:
    inventory.write_secret("enable", "not-the-one")
    await assert_failing_check(inventory, "sw-telnet", "mode", "it is user", "secret was refused")


async def test_doctor_unknown_platform_fails_credentials(inventory: SwitchInventory, switch: SimulatedSwitch) -> None:
    inventory.write_devices(
        telnet=switch.telnet_port,
        more=f'[devices.odd]\nhost = "127.0.0.1"\nport = {switch.telnet_port}\nprotocol = "telnet"\nplatform = "toaster_os"\n',
    )
    await assert_failing_check(inventory, "odd", "credentials", "toaster_os")


async def test_doctor_invalid_inventory_fails_name(inventory: SwitchInventory) -> None:
    inventory.devices.write_text(json.dumps({}) + "nonsense")
    await assert_failing_check(inventory, "sw-telnet", "name", "devices.toml")

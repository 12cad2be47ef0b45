"""`ptyctl doctor` names the first step that fails, and what to do; it never shows a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ptyctl.controller.doctor import Check, Doctor
from ptyctl.simulator import SimulatedSwitch
from tests.integration.devices.switch_inventory import ENABLE, PASSWORD, SwitchInventory

ALL = ["name", "credentials", "network", "connection", "login", "prompt", "mode", "paging"]


def told(check: Check) -> str:
    """The result and the next step of a check."""
    return f"{check.result}; {check.hint}" if check.hint else check.result


async def examined(inventory: SwitchInventory, device: str, **settings: Any) -> list[Check]:
    steps = [check async for check in Doctor(inventory.settings(**settings), device).checks()]
    for step in steps:
        assert PASSWORD not in told(step)
        assert ENABLE not in told(step)
    return steps


@pytest.mark.parametrize("device", ["sw-telnet", "sw-console", "sw-ssh"])
async def test_all_is_well(inventory: SwitchInventory, device: str) -> None:
    steps = await examined(inventory, device)
    assert [(step.name, step.ok) for step in steps] == [(name, True) for name in ALL]
    results = {step.name: told(step) for step in steps}
    assert "enable secret" in results["credentials"]
    assert results["prompt"] == "'switch-001#'"
    assert results["mode"] == "privileged"
    assert "terminal length 0" in results["paging"]
    assert not (inventory.folder / "state").exists()  # nothing is kept


async def failing(inventory: SwitchInventory, device: str, name: str, *parts: str) -> None:
    """All steps before it are well, and it is the last."""
    steps = await examined(inventory, device)
    assert [(step.name, step.ok) for step in steps[:-1]] == [(before, True) for before in ALL[: ALL.index(name)]]
    assert (steps[-1].name, steps[-1].ok) == (name, False)
    assert [part for part in parts if part not in told(steps[-1])] == []


async def test_a_name_that_is_not_there(inventory: SwitchInventory) -> None:
    await failing(inventory, "sw-telne", "name", "sw-telnet")


async def test_a_secret_that_is_missing(inventory: SwitchInventory) -> None:
    (inventory.folder / "secrets" / "password").unlink()
    await failing(inventory, "sw-telnet", "credentials", "devices.sw-telnet.password", "file:secrets/password")


async def test_a_secret_that_others_can_read(inventory: SwitchInventory) -> None:
    (inventory.folder / "secrets" / "password").chmod(0o644)
    await failing(inventory, "sw-telnet", "credentials", "chmod 600")


async def test_a_port_where_nobody_listens(inventory: SwitchInventory) -> None:
    inventory.write(telnet=1)
    await failing(inventory, "sw-telnet", "network", "127.0.0.1:1", "refused")


async def test_a_host_key_that_is_not_the_expected_one(inventory: SwitchInventory) -> None:
    text = inventory.devices.read_text()
    inventory.devices.write_text(text.replace(inventory.switch.host_key_fingerprint, "SHA256:" + "A" * 43))
    await failing(inventory, "sw-ssh", "connection", "key")


async def test_ssh_credentials_that_are_refused(inventory: SwitchInventory) -> None:
    inventory.keep("password", "not-the-one")
    await failing(inventory, "sw-ssh", "connection", "admin")


async def test_a_login_that_is_refused(inventory: SwitchInventory) -> None:
    inventory.keep("password", "not-the-one")
    await failing(inventory, "sw-telnet", "login", "refused")


async def test_an_enable_secret_that_is_refused(inventory: SwitchInventory) -> None:
    inventory.keep("enable", "not-the-one")
    await failing(inventory, "sw-telnet", "mode", "it is user", "secret was refused")


async def test_a_platform_that_is_not_known(inventory: SwitchInventory, switch: SimulatedSwitch) -> None:
    inventory.write(
        telnet=switch.telnet_port,
        more=f'[devices.odd]\nhost = "127.0.0.1"\nport = {switch.telnet_port}\nprotocol = "telnet"\nplatform = "toaster_os"\n',
    )
    await failing(inventory, "odd", "credentials", "toaster_os")


async def test_an_inventory_that_is_wrong_is_the_first_step(inventory: SwitchInventory) -> None:
    inventory.devices.write_text(json.dumps({}) + "nonsense")
    await failing(inventory, "sw-telnet", "name", "devices.toml")

"""`open` by device name: the inventory provides address, protocol and credentials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptyctl import LocalController
from ptyctl.api import ErrorCode
from ptyctl.api.errors import NextStep
from ptyctl.api.handle import SessionHandle
from ptyctl.api.methods import PTY_REQUESTS
from tests.controller.session_calls import PATIENCE_MS, config, refused, session
from tests.integration.devices.switch_inventory import ENABLE, PASSWORD, SwitchInventory

pytestmark = pytest.mark.waits


def metas(inventory: SwitchInventory) -> list[Path]:
    return list((inventory.folder / "state" / "sessions").glob("*/meta.json"))


@pytest.mark.parametrize("name", ["sw-telnet", "sw-console", "sw-ssh"])
async def test_open_by_name_uses_inventory(controller: LocalController, name: str) -> None:
    one = await SessionHandle.open(controller, device=name, acquire_lock=True, task_id="t")
    assert (one.opened.state, one.opened.platform) == ("open", "cisco_ios")
    assert "switch-001" in (await one.exec("show version")).stdout


@pytest.mark.parametrize("name", ["sw-telnet", "sw-ssh"])
async def test_session_meta_keeps_device_name_and_no_secret(
    controller: LocalController, inventory: SwitchInventory, name: str
) -> None:
    await SessionHandle.open(controller, device=name)
    (path,) = metas(inventory)
    assert json.loads(path.read_text())["spec"]["device"] == name
    assert PASSWORD not in path.read_text()
    assert ENABLE not in path.read_text()


async def test_console_device_id_is_device_name(controller: LocalController) -> None:
    one = await SessionHandle.open(controller, device="sw-console")
    two = await SessionHandle.open(controller, device="sw-console")
    assert two.session_id == one.session_id
    (entry,) = (await session(controller, "list")).sessions or []
    assert (entry.session_type, entry.device_id, entry.platform) == ("console", "sw-console", "cisco_ios")


async def test_caller_options_override_inventory(controller: LocalController) -> None:
    one = await SessionHandle.open(controller, device="sw-telnet", pty={"cols": 100, "rows": 30}, platform="cisco_ios")
    (entry,) = (await session(controller, "list")).sessions or []
    assert one.opened.platform == "cisco_ios"
    assert entry.pty is not None
    assert (entry.pty.cols, entry.pty.rows) == (100, 30)


async def test_caller_cannot_redirect_credentials(controller: LocalController) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, "sw-telnet", "host"):
        await session(controller, "open", device="sw-telnet", host="192.0.2.1")


async def test_caller_cannot_choose_another_platform(controller: LocalController) -> None:
    with refused(ErrorCode.INVALID_ARGUMENT, "sw-telnet", "leave out platform"):
        await session(controller, "open", device="sw-telnet", platform="frr")


async def test_unknown_name_suggests_similar_device(controller: LocalController) -> None:
    with refused(ErrorCode.NOT_FOUND, "sw-consol", "sw-console"):
        await session(controller, "open", device="sw-consol")
    with refused(ErrorCode.NOT_FOUND, NextStep.LIST_DEVICES):
        await session(controller, "open", device="x")


async def test_wrong_password_error_does_not_contain_it(controller: LocalController, inventory: SwitchInventory) -> None:
    inventory.write_secret("password", "not-the-one")
    with refused(ErrorCode.AUTH_FAILED) as caught:
        await session(controller, "open", device="sw-telnet")
    assert "not-the-one" not in f"{caught.value.message} {caught.value.details}"
    assert metas(inventory) == []


async def test_changed_password_applies_at_next_open(controller: LocalController, inventory: SwitchInventory) -> None:
    inventory.write_secret("password", "not-the-one")
    with refused(ErrorCode.AUTH_FAILED):
        await session(controller, "open", device="sw-telnet")
    inventory.write_secret("password", PASSWORD)
    assert (await session(controller, "open", device="sw-telnet")).state == "open"


async def test_open_of_lost_console_reads_inventory_again(controller: LocalController, inventory: SwitchInventory) -> None:
    one = await SessionHandle.open(controller, device="sw-console", acquire_lock=True, task_id="t")
    inventory.relay.close()
    await one.read(until_regex="never", timeout_ms=PATIENCE_MS)
    again = await SessionHandle.open(controller, device="sw-console")
    assert (again.session_id, again.opened.state) == (one.session_id, "open")
    assert "switch-001" in (await one.exec("show version")).stdout


@pytest.mark.parametrize("is_lost", [False, True], ids=["open", "lost"])
async def test_console_that_was_opened_by_its_address_is_not_returned_for_its_name(
    controller: LocalController, inventory: SwitchInventory, is_lost: bool
) -> None:
    address = {"protocol": "telnet", "host": "127.0.0.1", "port": inventory.relay.port, "platform": "generic"}
    one = await SessionHandle.open(controller, **address, session_type="console", device_id="sw-console")
    if is_lost:
        inventory.relay.close()
        await one.read(until_regex="never", timeout_ms=PATIENCE_MS)
    with refused(ErrorCode.INVALID_ARGUMENT, "sw-console", "by its name") as caught:
        await session(controller, "open", device="sw-console")
    assert caught.value.details["existing_session_id"] == one.session_id
    await session(controller, "close", session_id=one.session_id)
    two = await SessionHandle.open(controller, device="sw-console")
    assert (two.opened.platform, two.opened.existing_session_id) == ("cisco_ios", None)
    again = await SessionHandle.open(controller, **address, session_type="console", device_id="sw-console")
    assert again.session_id == two.session_id


async def test_reset_logs_in_again(controller: LocalController) -> None:
    one = await SessionHandle.open(controller, device="sw-console", acquire_lock=True, task_id="t")
    reply = await controller.pty(PTY_REQUESTS["pty_reset"].of({"session_id": one.session_id, "task_id": "t"}))
    assert reply.ok
    assert (await one.exec("show version")).mode == "privileged"


async def test_pace_of_device_applies_to_session(controller: LocalController, inventory: SwitchInventory) -> None:
    inventory.write_devices(telnet=inventory.relay.port, more="pace = { line_delay_ms = 5 }\n")
    one = await SessionHandle.open(controller, device="sw-ssh")
    pace = (await config(one, "get")).pace
    assert pace is not None
    assert pace.line_delay_ms == 5
    two = await SessionHandle.open(controller, device="sw-telnet")
    assert (await config(two, "get")).pace is None

"""A principal that is limited to some devices of the inventory opens these, and learns nothing about the others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ptyctl import LocalController
from ptyctl.api import ErrorCode
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.access import AccessController
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import Client, serving
from tests.controller.session_calls import refused, session
from tests.integration.devices.switch_inventory import SwitchInventory


@pytest.fixture
def access(controller: LocalController) -> AccessController:
    return AccessController(controller)


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    with serving(Client(Principal("ci", Kind.AGENT, Role.OPERATOR, ("sw-tel*", "nothing")))):
        yield


async def test_device_of_the_principal_opens_by_name(access: AccessController) -> None:
    handle = await SessionHandle.open(access, device="sw-telnet")
    assert "switch-001" in (await handle.exec("show version")).stdout
    (entry,) = (await session(access, "list")).sessions or []
    assert (entry.device, entry.opened_by) == ("sw-telnet", "ci")
    await handle.close()


@pytest.mark.parametrize("name", ["sw-ssh", "sw-none", "nothing", "sw-consol"])
async def test_open_of_another_device_fails_as_if_it_did_not_exist(access: AccessController, name: str) -> None:
    with refused(ErrorCode.NOT_FOUND, f"no device {name!r} in the inventory") as caught:
        await session(access, "open", device=name)
    assert (caught.value.hint, caught.value.details) == (None, {"field": "device"})


async def test_faults_of_the_inventory_do_not_name_other_devices(access: AccessController, inventory: SwitchInventory) -> None:
    inventory.write_devices(telnet=1, more="\n[devices.core-1]\nhots = 'x'\n")
    with refused(ErrorCode.INVALID_ARGUMENT, "the inventory has errors") as caught:
        await session(access, "open", device="sw-telnet")
    assert "core-1" not in str(caught.value.payload())


async def test_address_in_place_of_a_device_is_refused(access: AccessController) -> None:
    with refused(ErrorCode.FORBIDDEN, "only the devices sw-tel*, nothing"):
        await session(access, "open", protocol="telnet", host="127.0.0.1", port=1)

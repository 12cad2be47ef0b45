"""Fixtures: a simulated switch, an inventory with it, and a controller that uses the inventory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.servers.relay import Relay
from ptyctl.controller.local import LocalController
from ptyctl.simulator import SimulatedSwitch
from tests.integration.devices.switch_inventory import ENABLE, PASSWORD, SwitchInventory


@pytest.fixture
async def switch() -> AsyncIterator[SimulatedSwitch]:
    async with SimulatedSwitch(password=PASSWORD, enable_secret=ENABLE) as practice:
        yield practice


@pytest.fixture
async def relay(switch: SimulatedSwitch) -> AsyncIterator[Relay]:
    """Relay to the Telnet port of the switch."""
    async with Relay(switch.telnet_port) as between:
        yield between


@pytest.fixture
def inventory(tmp_path: Path, switch: SimulatedSwitch, relay: Relay) -> SwitchInventory:
    return SwitchInventory(tmp_path, switch, relay)


@pytest.fixture
async def controller(inventory: SwitchInventory) -> AsyncIterator[LocalController]:
    async with LocalController(inventory.settings()) as local:
        yield local

"""A practice switch, an inventory that names it, and a controller that reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.servers.relay import Relay
from ptyctl.controller import LocalController
from ptyctl.simulator import PracticeSwitch
from tests.devices.rack import ENABLE, PASSWORD, Rack


@pytest.fixture
async def switch() -> AsyncIterator[PracticeSwitch]:
    async with PracticeSwitch(password=PASSWORD, enable_secret=ENABLE) as practice:
        yield practice


@pytest.fixture
async def relay(switch: PracticeSwitch) -> AsyncIterator[Relay]:
    """On the way to the switch's Telnet port."""
    async with Relay(switch.telnet_port) as between:
        yield between


@pytest.fixture
def rack(tmp_path: Path, switch: PracticeSwitch, relay: Relay) -> Rack:
    return Rack(tmp_path, switch, relay)


@pytest.fixture
async def controller(rack: Rack) -> AsyncIterator[LocalController]:
    async with LocalController(rack.settings()) as local:
        yield local

"""A controller, and sessions as for its own tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from tests.controller.conftest import open_session

__all__ = ["controller", "open_session"]


@pytest.fixture
async def controller() -> AsyncIterator[LocalController]:
    async with LocalController(Settings()) as controller:
        yield controller

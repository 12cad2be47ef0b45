"""Fixtures of the browser tests: the browser, and a console with pages.

The tests of a process share one browser, and therefore one event loop. Asynchronous fixtures need `loop_scope="session"` too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from fixtures.browser.chromium import find_chromium, running_chromium

from .desk import Desk, running_desk


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium, started for the first test that needs it."""
    async with running_chromium(find_chromium()) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def desk(tmp_path: Path, browser: Browser) -> AsyncIterator[Desk]:
    """A web console without sessions."""
    async with running_desk(tmp_path, browser) as running:
        yield running

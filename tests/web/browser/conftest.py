"""Fixtures of the browser tests: the browser, and a function that opens tabs.

The tests of a process share one browser, and therefore one event loop. Asynchronous fixtures need `loop_scope="session"` too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from fixtures.browser.chromium import find_chromium, running_chromium
from fixtures.browser.console_page import Tab, open_tab

OpenTab = Callable[..., Awaitable[Tab]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium, started for the first test that needs it."""
    async with running_chromium(find_chromium()) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def new_tab(browser: Browser) -> AsyncIterator[OpenTab]:
    """Opens a tab, with the arguments of `open_tab`. The test fails at its end if a page reported a problem."""
    async with AsyncExitStack() as tabs:

        async def opened(**options: object) -> Tab:
            return await tabs.enter_async_context(open_tab(browser, **options))

        yield opened

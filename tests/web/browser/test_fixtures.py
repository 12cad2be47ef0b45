"""The browser fixtures: problems of a page fail the test, axe-core finds violations."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from fixtures.browser.axe import find_violations
from fixtures.browser.console_page import open_tab


@pytest.mark.parametrize("script", ["console.error('broken')", "setTimeout(() => { throw new Error('broken') })"])
async def test_tab_whose_page_reports_an_error_fails(browser: Browser, script: str) -> None:
    with pytest.raises(AssertionError, match="broken"):
        await _run_script(browser, script)


async def _run_script(browser: Browser, script: str) -> None:
    event = "console" if "console" in script else "pageerror"
    async with open_tab(browser) as tab, tab.page.expect_event(event):
        await tab.page.evaluate(script)


async def test_tab_ignores_expected_problems(browser: Browser) -> None:
    async with open_tab(browser) as tab:
        tab.expect_problem("broken")
        async with tab.page.expect_event("console"):
            await tab.page.evaluate("console.error('broken')")


async def test_axe_reports_a_field_without_label(browser: Browser) -> None:
    async with open_tab(browser) as tab:
        await tab.page.set_content("<!doctype html><html lang=en><title>x</title><main><h1>x</h1><input></main>")
        assert [line.partition(":")[0] for line in await find_violations(tab.page)] == ["label"]

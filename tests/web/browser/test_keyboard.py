"""A way through all views without a mouse: each step is a key, and the focused element is outlined."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from .desk import ASKED, Desk

#: More than any view has elements with the focus.
_MAX_TABS = 80
#: null for an element that is no longer in the page. To find an element by its role at each key would take most of the time.
_HAS_FOCUS = "element => element.isConnected ? element === document.activeElement : null"
_IS_OUTLINED = """element => {
    const { outlineStyle, boxShadow } = getComputedStyle(element);
    return outlineStyle !== "none" || boxShadow !== "none";
}"""


async def _tab_to(target: Locator, key: str = "Tab") -> None:
    """Press Tab until an element has the focus; check that this is visible."""
    page = target.page
    await target.wait_for()
    element = await target.element_handle()
    for _ in range(_MAX_TABS):
        await page.keyboard.press(key)
        while (focused := await element.evaluate(_HAS_FOCUS)) is None:  # it was drawn again
            element = await target.element_handle()
        if focused:
            assert await target.evaluate(_IS_OUTLINED), f"{target} has no outline"
            return
    raise AssertionError(f"{_MAX_TABS} times {key} do not lead to {target}")


async def _enter(page: Page, role: str, name: str) -> None:
    """Move the focus to an element, and press Enter."""
    await _tab_to(page.get_by_role(role, name=name, exact=True))  # type: ignore[arg-type]
    await page.keyboard.press("Enter")


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inventory with one device that nothing answers for."""
    (tmp_path / "devices.toml").write_text('[devices.core-1]\nhost = "127.0.0.1"\nport = 1\nprotocol = "telnet"\n')
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(tmp_path / "devices.toml"))


async def test_all_views_are_used_without_a_mouse(desk: Desk) -> None:
    session = await desk.open_shell()
    page = await desk.open("/")
    keyboard = page.keyboard

    # Sessions: the link after the navigation, the filter and its key, list and wall.
    await _tab_to(page.get_by_role("link", name="Skip to content"))
    await keyboard.press("Enter")
    await keyboard.press("/")
    await expect(page.get_by_label("Filter")).to_be_focused()
    await keyboard.type("shell")
    await _enter(page, "button", "Wall")
    await expect(page.locator(".tile")).to_have_count(1)
    await _enter(page, "link", f"shell {session[-4:]}")

    # A session: take the lock, type, give it back, and leave the terminal.
    await expect(page.locator(".lockbar")).to_contain_text("Nobody has the lock")
    await keyboard.press("Control+Shift+L")
    await expect(page.locator(".lockbar")).to_contain_text("You have the lock.")
    await keyboard.type("false\n")
    await expect(page.locator(".card")).to_contain_text("completed (1)")
    await keyboard.press("Control+Shift+F")
    await expect(page.get_by_label("Find in the terminal")).to_be_focused()
    await keyboard.press("Escape")
    await keyboard.press("Control+Shift+L")
    await expect(page.locator(".lockbar")).to_contain_text("Nobody has the lock")
    await _enter(page, "button", "Type commands here")
    await expect(page.get_by_role("textbox", name="Command", exact=True)).to_be_focused()
    await _tab_to(page.get_by_role("textbox", name="Message"))
    await keyboard.type("hello")
    await keyboard.press("Enter")
    await expect(page.locator(".messages li")).to_contain_text("alice: hello")
    await _tab_to(page.locator(".card a.cmd"), "Shift+Tab")
    await keyboard.press("Enter")

    # A block, and the replay.
    await expect(page.locator(".facts")).to_contain_text("completed (1)")
    await _enter(page, "button", "Terminal")
    await expect(page.locator(".xterm-screen")).to_be_visible()
    await _enter(page, "link", "Screen at its end")
    slider = page.get_by_role("slider", name="Place in the output")
    await _tab_to(slider)
    place = await slider.input_value()
    await keyboard.press("ArrowLeft")
    await expect(slider).to_have_value(str(int(place) - 1))
    await _tab_to(page.get_by_label("Speed"))
    await _tab_to(page.get_by_label("Skip idle time"))
    await keyboard.press("Space")
    await expect(page.get_by_label("Skip idle time")).not_to_be_checked()
    await _enter(page, "link", "Live session")
    await expect(page.locator(".lockbar")).to_contain_text("Nobody has the lock")

    # The inbox.
    answer = await desk.ask(session)
    await _enter(page, "link", "Approvals 1")
    await expect(page.locator(".asked")).to_have_text(ASKED)
    await _enter(page, "button", "Decline d")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await keyboard.press("d")
    await keyboard.type("not today")
    await keyboard.press("Enter")
    await expect(page.locator(".request")).to_contain_text("not today")
    await asyncio.gather(answer, return_exceptions=True)

    # Search, devices and audit.
    await _enter(page, "link", "Search")
    await expect(page.get_by_label("Search for")).to_be_focused()
    await keyboard.type("false")
    await _tab_to(page.get_by_label("Only failed"))
    await keyboard.press("Space")
    await keyboard.press("Enter")
    await _tab_to(page.locator(".hits a.cmd"))
    await _enter(page, "link", "Devices")
    await _enter(page, "button", "Doctor")
    await expect(page.locator(".checks .bad")).to_be_visible()
    await _enter(page, "link", "Audit")
    await _tab_to(page.get_by_label("Event"))
    await keyboard.type("text")
    await keyboard.press("Enter")
    await expect(page.locator("tbody tr").first).to_contain_text("false")
    await _enter(page, "button", "Verify the log")
    await expect(page.locator(".panel[role=status]")).to_contain_text("rows fit")
    await _enter(page, "button", "Theme: auto")
    await expect(page.locator("html")).to_have_attribute("data-theme", "light")
    await _enter(page, "button", "Sign out")
    await expect(page.get_by_label("Token")).to_be_focused()


async def test_link_to_a_part_of_the_page_does_not_show_the_view_anew(desk: Desk) -> None:
    page = await desk.open("/")
    view = await page.locator(".sessions-view").element_handle()
    assert view is not None
    await _tab_to(page.get_by_role("link", name="Skip to content"))
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
    await page.go_back()  # to the address without the fragment
    await page.wait_for_function("() => location.hash === ''")
    assert await view.evaluate("element => element.isConnected")

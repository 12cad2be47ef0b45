"""Browsers that lack an optional feature, or whose feature fails: the page works without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

import ptyctl.web

from .desk import ASKED, Desk
from .visitor import Visitor

#: The optional features that the page uses. A new one belongs into features.js, and into this list.
_OPTIONAL = (
    "Notification|navigator|localStorage|sessionStorage|indexedDB|caches|matchMedia|ResizeObserver|IntersectionObserver|"
    "PerformanceObserver|BroadcastChannel|SharedWorker|Worker|Intl\\.Segmenter|requestFullscreen|exitFullscreen|screen\\.orientation|"
    "visualViewport|requestIdleCallback|AbortSignal\\.(?:timeout|any)|structuredClone|crypto|getContext|Audio|speechSynthesis"
)
#: As in Chrome for Android: the permission is granted, and the constructor throws.
_THROWING_NOTIFICATION = """
window.Notification = class { constructor() { throw new TypeError("Illegal constructor"); } };
Notification.permission = "granted";
Notification.requestPermission = () => { throw new TypeError("not here"); };
Object.defineProperty(document, "hidden", { get: () => true });
"""
_BLOCKED_STORES = """
for (const name of ["localStorage", "sessionStorage"]) {
  Object.defineProperty(window, name, { get() { throw new DOMException("blocked", "SecurityError"); } });
}
"""
_MISSING = """
delete Intl.Segmenter;
for (const name of ["Notification", "ResizeObserver", "IntersectionObserver"]) delete window[name];
Object.defineProperty(navigator, "clipboard", { value: undefined });
const { matchMedia } = window;
window.matchMedia = (query) => {
  if (query.includes("color-scheme")) throw new TypeError("not here");
  return matchMedia(query);
};
history.replaceState = () => { throw new DOMException("too many", "SecurityError"); };
"""
_FEATURES = pytest.mark.parametrize(
    "script", [_THROWING_NOTIFICATION, _BLOCKED_STORES, _MISSING], ids=["throwing-notification", "blocked-stores", "missing"]
)


def test_modules_use_optional_features_only_through_one_module() -> None:
    folder = Path(ptyctl.web.__file__).parent / "static"
    used = re.compile(
        rf"(?<![\w.\"#-])(?:window\.|globalThis\.|document\.|self\.)?(?:{_OPTIONAL})\b(?=\s*[.(\[;)])|\.(?:vibrate|wakeLock|share)\b"
    )
    found = [
        f"{path.name}: {line.strip()}"
        for path in folder.rglob("*.js")
        if path.name != "features.js"
        for line in path.read_text().splitlines()
        if not line.lstrip().startswith(("//", "*", "/*")) and used.search(line)
    ]
    assert not found


@_FEATURES
async def test_request_in_a_browser_without_a_feature_is_counted_and_listed(desk: Desk, script: str) -> None:
    session = await desk.open_shell()
    tab = await desk.open_tab("/audit")
    await tab.context.add_init_script(script)
    await tab.page.goto(f"{desk.url}/approvals")
    await expect(tab.page.locator("main")).to_contain_text("No request waits")
    waiting = await desk.ask(session)
    await expect(tab.page.locator("nav .count")).to_have_text("1")
    await expect(tab.page.locator(".requests button")).to_contain_text(ASKED)
    waiting.cancel()


@_FEATURES
async def test_all_views_of_a_browser_without_a_feature_are_shown(desk: Desk, script: str) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "printf '\\033[31m%s\\033[m\\n' e\u0301 \u4e2d")
    visitor = Visitor(await desk.open_tab("/audit"))
    page = visitor.page
    await page.context.add_init_script(script)
    await page.goto(f"{desk.url}/s/{session}")
    await visitor.take_lock()
    await visitor.type("echo $((6 * 7))\n")
    await visitor.wait_for_text("\n42\n")
    await expect(visitor.card("echo $((6 * 7))").locator(".output")).to_have_text("42")
    await page.get_by_role("button", name="Type commands here").click()
    await page.set_viewport_size({"width": 1000, "height": 700})
    await page.get_by_role("button", name="Theme: auto").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "light" if script != _BLOCKED_STORES else "auto")
    await page.goto(f"{desk.url}/s/{session}/at/0")
    await expect(page.locator(".xterm-screen")).to_be_visible()
    await page.goto(f"{desk.url}/?view=wall")
    await expect(page.locator(".tile .screen")).to_contain_text("42")
    await page.goto(f"{desk.url}/search?q=echo")
    await expect(page.locator(".hits")).to_contain_text("echo")

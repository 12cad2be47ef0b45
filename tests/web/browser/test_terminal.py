"""The terminal of the page: hostile output has no effect, and nothing but what a person types is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from .desk import Desk, running_desk
from .visitor import visit

#: A second terminal over the page, which records what it would send.
_OPEN_TERMINAL = """async () => {
    const { createTerminal } = await import("/static/terminal.js");
    const box = document.createElement("div");
    box.style.cssText = "position: fixed; inset: 0; z-index: 9; background: white";
    document.body.append(box);
    window.sent = [];
    const send = (data) => window.sent.push(data);
    window.terminal = createTerminal(box, { onData: send, onBinary: send });
}"""
_WRITE = "data => new Promise(parsed => window.terminal.write(data, parsed))"
#: What a terminal answers: DSR, DA, DECRQM, DECRQSS, XTGETTCAP, XTVERSION, window reports, kitty keyboard, colours.
_QUERIES = (
    "\x1b[5n\x1b[6n\x1b[?6n\x1b[?996n\x1b[c\x1b[0c\x1b[>c\x1b[=c\x1bZ\x1b[4$p\x1b[?25$p\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1b[>q\x1b[?u"
    "\x1b[14t\x1b[16t\x1b[18t\x1b[21t\x1b]4;1;?\x07\x1b]10;?\x1b\\\x1b]11;?\x07\x1b]12;?\x07\x05"
)
_FOCUS_EVENTS = "\x1b[?1004h"
_CLIPBOARD = "\x1b]52;c;aGFja2Vk\x07\x1b]52;c;?\x07"

#: Several times what a viewer may be behind.
_FLOOD_BYTES = 16_000_000


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_page(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncIterator[Page]:
    """The page of a session."""
    async with running_desk(tmp_path_factory.mktemp("shared"), browser) as desk:
        visitor = await visit(desk, await desk.open_shell())
        await visitor.expect_lock("Nobody has the lock")
        yield visitor.page


@pytest_asyncio.fixture(loop_scope="session")
async def page(shared_page: Page) -> Page:
    """A page with a separate terminal that nothing else writes to."""
    await shared_page.evaluate(_OPEN_TERMINAL)
    return shared_page


@pytest.mark.parametrize("webgl", [False, True])
async def test_colours_are_drawn_with_and_without_webgl(desk: Desk, webgl: bool) -> None:
    page = await desk.open(webgl=webgl)
    await page.evaluate(_OPEN_TERMINAL)
    await page.evaluate(_WRITE, "\x1b[38;2;10;20;30mdark")
    canvases, words = page.locator(".xterm-screen canvas"), page.locator(".xterm-rows span", has_text="dark")
    if webgl:
        await expect(canvases).not_to_have_count(0)
        await expect(words).to_have_count(0)
    else:
        await expect(words).to_have_css("color", "rgb(10, 20, 30)")
        await expect(canvases).to_have_count(0)


async def _sent(page: Page) -> Any:
    return await page.evaluate("window.sent")


async def test_terminal_answers_no_query_and_sends_what_is_typed(page: Page) -> None:
    await page.evaluate(_WRITE, _QUERIES + _FOCUS_EVENTS)
    await page.evaluate("window.terminal.focus()")
    await page.keyboard.type("ls")
    await page.evaluate("document.activeElement.blur()")
    assert await _sent(page) == ["l", "s"]


async def test_terminal_does_not_touch_the_clipboard(page: Page) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.evaluate("navigator.clipboard.writeText('mine')")
    await page.evaluate(_WRITE, _CLIPBOARD)
    assert await page.evaluate("navigator.clipboard.readText()") == "mine"
    assert await _sent(page) == []


async def test_link_opens_only_http_and_only_after_confirmation(page: Page) -> None:
    links = {"bad link": "javascript:window.hacked=1", "good link": "https://example.org/x"}
    await page.evaluate(_WRITE, "\r\n".join(f"\x1b]8;;{address}\x07{text}\x1b]8;;\x07" for text, address in links.items()))
    screen = await page.locator(".xterm-screen").last.bounding_box()
    assert screen is not None
    for row in (8, 24):  # both links, one below the other
        await page.mouse.move(screen["x"] + 5, screen["y"] + row)
        await page.mouse.move(screen["x"] + 20, screen["y"] + row)
        await page.mouse.click(screen["x"] + 20, screen["y"] + row)
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("https://example.org/x")
    await expect(dialog).to_have_count(1)
    await page.get_by_role("button", name="Cancel").click()
    assert len(page.context.pages) == 1
    assert await page.evaluate("window.hacked") is None


async def test_markup_in_commands_output_and_title_is_text(desk: Desk) -> None:
    session = await desk.open_shell()
    markup = "<img src=x onerror=window.hacked=1>"
    command = f"printf '\\e]2;{markup}\\a{markup}\\n'; echo done"
    await desk.exec(session, command)
    visitor = await visit(desk, session)
    await expect(visitor.card(command).locator(".output")).to_contain_text(markup)
    await visitor.wait_for_text(markup)
    assert await visitor.page.locator("img").count() == 0
    assert await visitor.page.evaluate("window.hacked") is None


async def test_flood_with_the_page_open_ends_at_its_last_line(desk: Desk) -> None:
    session, other = await desk.open_shell(), await desk.open_shell()
    visitor = await visit(desk, session)
    command = f"yes 0123456789012345678901234567890 | head -c {_FLOOD_BYTES}; echo last $((6 * 7))"
    await desk.exec(session, command, timeout_ms=0)
    assert "hi" in str((await desk.exec(other, "echo hi")).stdout)
    await visitor.wait_for_text("\nlast 42\n")
    await expect(visitor.card(command)).to_contain_text("completed")
    await visitor.take_lock()
    await visitor.type("echo $((7 * 7))\n")
    await visitor.wait_for_text("\n49\n")

"""A person at the console: a tab that is logged in, and what it shows of a session."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import Locator, Page, Route, expect

from fixtures.browser.console_page import Tab
from ptyctl.core.principal import Principal
from tests.web.console import ALICE

from .desk import Desk

#: Makes `shownTerminal` in the page, which returns the terminal of xterm.js, if there is one.
_DEFINE_TERMINAL = """async () => {
    const { terminalOf } = await import("/static/terminal.js");
    window.shownTerminal = () => terminalOf(document.querySelector(".term-box"));
}"""
#: Text of the terminal's screen and scrollback.
_TEXT = """() => {
    const buffer = shownTerminal()?.buffer.active;
    const line = (_, row) => buffer.getLine(row).translateToString(true);
    return buffer ? Array.from({ length: buffer.length }, line).join("\\n") : "";
}"""
#: How often the page looks for a text (ms). By default it looks at each frame, and a hidden page draws none.
_POLL_MS = 50


class Visitor:
    """One principal's tab."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.page: Page = tab.page

    async def call(self, method: str, **fields: Any) -> Any:
        """Call a method of the controller as the page does."""
        script = "async ([method, fields]) => (await import('/static/api.js')).call(method, fields)"
        return await self.page.evaluate(script, [method, fields])

    async def answered(self, method: str, **fields: Any) -> dict[str, Any]:
        """Call a method as the page does; return the reply or the error."""
        script = """async ([method, fields]) => {
            const { call } = await import("/static/api.js");
            return call(method, fields).catch((error) => ({ error: { error_code: error.error_code } }));
        }"""
        reply: dict[str, Any] = await self.page.evaluate(script, [method, fields])
        return reply

    async def set_constant(self, module: str, name: str, value: int) -> None:
        """Change a constant of a module of the page, in the pages that the tab loads from now on."""

        async def change(route: Route) -> None:
            reply = await route.fetch()
            text, count = re.subn(rf"(?m)^const {name} = [\d_]+;", f"const {name} = {value};", await reply.text())
            assert count == 1, f"{module} has no constant {name}"
            await route.fulfill(response=reply, body=text)

        await self.page.route(f"**/static/{module}", change)

    async def take_lock(self) -> None:
        await self.page.get_by_role("button", name="Take the lock").click()
        await self.expect_lock("You have the lock.")

    async def expect_lock(self, text: str) -> None:
        """Wait until the lock bar has the text."""
        await expect(self.lock_bar).to_contain_text(text)

    @property
    def lock_bar(self) -> Locator:
        return self.page.locator(".lockbar")

    async def type(self, text: str) -> None:
        """Type into the terminal."""
        await self.page.locator(".term-box .xterm-helper-textarea").focus()
        await self.page.keyboard.type(text)

    async def text(self) -> str:
        """Text of the terminal, its scrollback included."""
        await self.page.evaluate(_DEFINE_TERMINAL)
        return str(await self.page.evaluate(_TEXT))

    async def wait_for_text(self, text: str) -> None:
        """Wait until the terminal has the text."""
        await self.wait_for_terminal(f"text => ({_TEXT})().includes(text)", text)

    async def wait_for_terminal(self, predicate: str, arg: object = None) -> None:
        """Wait until a function of the page is true for `arg`. It must not be async: its promise would count as true."""
        await self.page.evaluate(_DEFINE_TERMINAL)
        await self.page.wait_for_function(predicate, arg=arg, polling=_POLL_MS)

    def card(self, command: str) -> Locator:
        """The cards of a command."""
        return self.page.get_by_role("article", name=command, exact=True)


async def visit(desk: Desk, session: str, principal: Principal = ALICE, **options: Any) -> Visitor:
    """Open the page of a session in a new tab, with the other options of `open_tab`."""
    return Visitor(await desk.open_tab(f"/s/{session}", principal, **options))

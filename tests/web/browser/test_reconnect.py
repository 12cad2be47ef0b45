"""The page outlives its daemon: it reports the lost connection, and continues the session with the next one."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from playwright.async_api import Browser, expect

from fixtures.browser.console_page import open_tab
from fixtures.daemons import end_daemon
from ptyctl.daemon.control import WEB, BlockingClient
from ptyctl.daemon.runtime_dir import RuntimeDir

from .visitor import Visitor


def _open_web(runtime_dir: RuntimeDir, listen: str = "127.0.0.1:0") -> Any:
    with BlockingClient(runtime_dir) as daemon:
        return daemon.call(WEB, {"listen": listen})


async def test_page_continues_after_the_daemon_was_killed(runtime_dir: RuntimeDir, browser: Browser) -> None:
    first = await asyncio.to_thread(_open_web, runtime_dir)
    async with open_tab(browser) as tab:
        visitor = Visitor(tab)
        tab.expect_problem("ERR_|WebSocket connection|status of 401")
        await tab.page.goto(f"{first['url']}/#ticket={first['ticket']}")
        await expect(tab.page.get_by_role("heading", level=1)).to_be_visible()
        opened = await visitor.call("ptyctl_session", action="open", protocol="local", command=["bash", "--norc"])
        await tab.page.goto(f"{first['url']}/s/{opened['session_id']}")
        await visitor.take_lock()
        await visitor.type("echo first $((1 + 1))\n")
        await visitor.wait_for_text("\nfirst 2\n")
        await expect(visitor.card("echo first $((1 + 1))")).to_contain_text("completed")
        await asyncio.to_thread(end_daemon, runtime_dir, signal.SIGKILL)
        await expect(tab.page.get_by_text("The connection to the daemon is lost")).to_be_visible()
        second = await asyncio.to_thread(_open_web, runtime_dir, first["url"].removeprefix("http://"))
        await expect(tab.page.get_by_role("button", name="Sign in")).to_be_visible()  # logins end with the daemon
        await tab.page.evaluate("ticket => { location.hash = `ticket=${ticket}` }", second["ticket"])
        await visitor.wait_for_text("\nfirst 2\n")
        await visitor.expect_lock("lock")
        if await tab.page.get_by_role("button", name="Take the lock").is_visible():
            await visitor.take_lock()
        await visitor.type("echo second $((1 + 2))\n")
        await visitor.wait_for_text("\nsecond 3\n")
        await expect(visitor.card("echo first $((1 + 1))")).to_have_count(1)
        await expect(visitor.card("echo second $((1 + 2))")).to_contain_text("completed")

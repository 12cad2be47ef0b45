"""A web console with people and agents: pages that are logged in, and calls of agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page

from fixtures.browser.console_page import Tab, open_tab
from ptyctl.api import ExecReply, ExecRequest, SessionRequest
from ptyctl.api.controller import Controller
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import serving_connection
from tests.web.console import ALICE, Console, console

AGENT = Principal("ada/mcp", Kind.AGENT, Role.OPERATOR)
#: A command that the default policy asks a person about. There is no such device: it changes nothing if a test really runs it.
ASKED = "mkfs.ext4 /dev/nope"


class Desk:
    """The console, with pages of alice, who is an admin, and calls of an agent."""

    def __init__(self, served: Console, controller: Controller, new_tab: Callable[..., Awaitable[Tab]]) -> None:
        self.url = served.url
        self._served = served
        self.controller = controller
        self._new_tab = new_tab

    async def open(self, path: str = "/", **options: Any) -> Page:
        """Open an address in a new tab, logged in by a ticket. The options are those of `open_tab`."""
        return (await self.open_tab(path, **options)).page

    async def open_tab(self, path: str = "/", principal: Principal = ALICE, **options: Any) -> Tab:
        tab = await self._new_tab(**options)
        await tab.page.goto(f"{self.url}{path}#ticket={self._served.app.mint_ticket(principal)}")
        await tab.page.wait_for_selector("main h1")
        return tab

    @asynccontextmanager
    async def agent(self, principal: Principal) -> AsyncIterator[Callable[..., Awaitable[dict[str, Any]]]]:
        """Create a token, and yield a function that calls a method over HTTP with it; it returns the reply or the error."""
        token = self._served.token_file.create(principal, None)
        async with self._served.client(Authorization=f"Bearer {token}") as client:

            async def call(method: str, **fields: Any) -> dict[str, Any]:
                reply: dict[str, Any] = (await client.post(f"/api/call/{method}", json=fields)).json()
                return reply

            yield call

    async def open_shell(self, **options: Any) -> str:
        """Open a local shell as the agent; return its session id."""
        return await self.open_session(protocol="local", shell="bash", **options)

    async def open_session(self, **options: Any) -> str:
        """Open a session as the agent; return its id."""
        with serving_connection(AGENT):
            reply = await self.controller.session(SessionRequest(action="open", task_id="night", **options))
        assert reply.session_id is not None
        return reply.session_id

    async def exec(self, session_id: str, cmd: str, **options: Any) -> ExecReply:
        """Run a command as the agent."""
        with serving_connection(AGENT):
            request = ExecRequest(session_id=session_id, cmd=cmd, task_id="night", **{"timeout_ms": 30_000, **options})
            return await self.controller.exec(request)

    async def wait_for_block(self, session_id: str, block_id: str) -> ExecReply:
        """Wait for the end of a command as the agent."""
        with serving_connection(AGENT):
            return await self.controller.exec(
                ExecRequest(session_id=session_id, block_id=block_id, task_id="night", timeout_ms=50_000)
            )

    async def ask(self, session_id: str, cmd: str = ASKED) -> asyncio.Task[ExecReply]:
        """Let the agent ask for a command; return its next call, which waits for the answer."""
        reply = await self.exec(session_id, cmd, timeout_ms=0)
        assert reply.done_reason == "approval", reply
        return asyncio.create_task(self.wait_for_block(session_id, reply.block_id))


async def navigate(page: Page, path: str) -> None:
    """Show an address as a link in the page does: the old view is gone, and the page is not loaded again."""
    await page.evaluate("async (path) => (await import('/static/router.js')).navigate(path)", path)


@asynccontextmanager
async def running_desk(folder: Path, browser: Browser, policy: str | None = None) -> AsyncIterator[Desk]:
    """Serve a console, with the text of a policy instead of the default one.

    At the end the tabs are closed first; a problem that a page reported fails the test.
    """
    async with console(folder, policy=policy) as served, AsyncExitStack() as tabs:

        async def new_tab(**options: Any) -> Tab:
            return await tabs.enter_async_context(open_tab(browser, **options))

        yield Desk(served, served.app._controller, new_tab)

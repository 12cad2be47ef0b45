"""The lock of a page: it survives other views and a reload, leaving asks, and its end restores the size of the terminal."""

from __future__ import annotations

import asyncio
import json

import pytest
from playwright.async_api import Dialog, Route, expect

from .desk import Desk, navigate
from .visitor import Visitor, visit


async def _holder(visitor: Visitor, session: str) -> str | None:
    reply = await visitor.call("ptyctl_session", action="status", session_id=session)
    return reply.get("lock_principal")


@pytest.mark.parametrize("path", ["/", "/approvals", "/search", "/audit", "/s/{}/at/0"])
async def test_lock_survives_another_view_and_is_given_back_there(desk: Desk, path: str) -> None:
    session = await desk.open_shell()
    alice = await visit(desk, session)
    await alice.take_lock()
    await navigate(alice.page, path.format(session))
    held = alice.page.locator(".held-lock")
    await expect(held).to_contain_text("You have the lock of shell")
    assert await _holder(alice, session) == "alice"
    await alice.page.go_back()
    await alice.expect_lock("You have the lock.")
    await expect(held).to_have_count(0)
    await alice.type("echo $((6 * 7))\n")
    await alice.wait_for_text("\n42\n")
    await alice.page.go_forward()
    await held.get_by_role("button", name="Give back").click()
    await expect(held).to_have_count(0)
    assert await _holder(alice, session) is None


async def test_lock_is_renewed_while_another_view_is_shown(desk: Desk) -> None:
    session = await desk.open_shell()
    alice = Visitor(await desk.open_tab("/audit"))
    await alice.set_constant("lock.js", "TTL_MS", 3_000)
    await alice.page.goto(f"{desk.url}/s/{session}")
    await alice.take_lock()
    await navigate(alice.page, "/audit")
    renewals = 0
    async with asyncio.timeout(50):
        while renewals < 4:
            async with alice.page.expect_request("**/api/call/ptyctl_session") as request:
                pass
            renewals += '"heartbeat"' in ((await request.value).post_data or "")
    assert await _holder(alice, session) == "alice"


@pytest.mark.parametrize("path", [None, "/audit"], ids=["same-view", "other-view"])
async def test_lock_survives_a_reload_which_asks(desk: Desk, path: str | None) -> None:
    session = await desk.open_shell()
    alice = await visit(desk, session)
    await alice.take_lock()
    await alice.type("echo $((6 * 7))\n")
    await alice.wait_for_text("\n42\n")
    if path:
        await navigate(alice.page, path)
    asked: list[str] = []

    async def answer(dialog: Dialog) -> None:
        asked.append(dialog.type)
        await dialog.accept()

    alice.page.on("dialog", answer)
    await alice.page.reload()
    assert asked == ["beforeunload"]
    if path:
        await expect(alice.page.locator(".held-lock")).to_contain_text("You have the lock of")
        await navigate(alice.page, f"/s/{session}")
    await alice.expect_lock("You have the lock.")
    await alice.type("echo $((6 * 8))\n")
    await alice.wait_for_text("\n48\n")


async def test_page_without_the_lock_is_left_without_a_question(desk: Desk) -> None:
    alice = await visit(desk, await desk.open_shell())
    await alice.take_lock()
    await alice.page.keyboard.press("Control+Shift+L")
    await alice.expect_lock("Nobody has the lock")
    asked: list[Dialog] = []
    alice.page.on("dialog", lambda dialog: asked.append(dialog))
    await alice.page.reload()
    await alice.expect_lock("Nobody has the lock")
    assert not asked


async def test_lock_that_was_lost_before_the_reload_is_not_used(desk: Desk) -> None:
    session = await desk.open_shell()
    alice = await visit(desk, session)
    await alice.take_lock()
    await alice.page.goto("about:blank")
    bob = await visit(desk, session)
    await bob.call("ptyctl_session", action="unlock", session_id=session, task_id="web")
    await alice.page.goto(f"{desk.url}/s/{session}")
    await alice.expect_lock("Nobody has the lock")


async def test_sign_out_with_the_lock_asks_and_gives_it_back(desk: Desk) -> None:
    session = await desk.open_shell()
    alice, bob = await visit(desk, session), await visit(desk, session)
    await alice.take_lock()
    await alice.page.get_by_role("button", name="Sign out").click()
    await alice.page.get_by_role("button", name="Cancel").click()
    await alice.expect_lock("You have the lock.")
    await alice.page.get_by_role("button", name="Sign out").click()
    alice.tab.expect_problem("status of 401")  # of a call that is under way
    await alice.page.get_by_role("button", name="Give back and sign out").click()
    await expect(alice.page.get_by_label("Token")).to_be_visible()
    await bob.expect_lock("Nobody has the lock")


async def test_answer_to_a_request_whose_view_was_left_gives_the_lock_back(desk: Desk) -> None:
    session = await desk.open_shell()
    alice = await visit(desk, session)
    requested: asyncio.Future[Route] = asyncio.get_running_loop().create_future()

    async def hold(route: Route) -> None:
        if json.loads(route.request.post_data or "{}").get("action") == "lock" and not requested.done():
            requested.set_result(route)
        else:
            await route.continue_()

    await alice.page.route("**/api/call/ptyctl_session", hold)
    await alice.page.get_by_role("button", name="Take the lock").click()
    await navigate(alice.page, "/audit")
    async with alice.page.expect_request(lambda request: '"unlock"' in (request.post_data or "")):
        await (await requested).continue_()
    await navigate(alice.page, f"/s/{session}")
    await alice.expect_lock("Nobody has the lock")


async def test_size_of_a_window_lasts_until_the_lock_is_given_back(desk: Desk) -> None:
    session = await desk.open_shell()
    alice = await visit(desk, session, width=900, height=700)
    head = alice.page.locator(".session-head small")
    await expect(head).to_contain_text("120×40")
    await alice.take_lock()
    await expect(head).not_to_contain_text("120×40")
    await navigate(alice.page, "/audit")
    await alice.page.locator(".held-lock").get_by_role("button", name="Give back").click()
    await navigate(alice.page, f"/s/{session}")
    await expect(head).to_contain_text("120×40")


@pytest.mark.parametrize("width", [320, 360, 412, 480])
async def test_window_below_60_columns_never_resizes(desk: Desk, width: int) -> None:
    session = await desk.open_shell()
    alice = await visit(desk, session, width=width, height=740, touch=True)
    resized: list[str] = []
    alice.page.on("request", lambda request: resized.append(request.url) if request.url.endswith("_config") else None)
    await alice.take_lock()
    await alice.page.set_viewport_size({"width": width, "height": 500})
    await alice.type("stty size\n")
    await alice.wait_for_text("\n40 120\n")
    assert not resized
    await alice.page.get_by_role("button", name="Give back").click()
    await expect(alice.page.locator(".session-head small")).to_contain_text("120×40")

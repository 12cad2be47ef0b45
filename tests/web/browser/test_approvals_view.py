"""The inbox of approvals: the live screen, and answers by mouse and by keyboard."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route, expect

from ptyctl.api.errors import PtyctlError

from .desk import ASKED, Desk, running_desk


async def test_approved_text_is_typed_and_shown_with_its_rule_and_screen(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "PS1='host> '; mkfs.ext4() { echo formatted \"$@\"; }")
    await desk.exec(session, "seq 100")
    answer = await desk.ask(session)
    page = await desk.open("/approvals")
    await expect(page.locator(".asked")).to_have_text(ASKED)
    await expect(page.locator(".rules")).to_contain_text("host-filesystem")
    await expect(page.locator(".screen .typed")).to_have_text(ASKED)
    await expect(page.locator(".screen .row", has=page.locator(".typed"))).to_contain_text(f"host> {ASKED}")
    await expect(page.locator(".screen .typed")).to_be_in_viewport()
    await page.get_by_label("Comment").fill("go ahead")
    await page.get_by_role("button", name="Approve").click()
    assert (await answer).stdout == "formatted /dev/nope\n"
    await expect(page.locator(".request")).to_contain_text("approved")
    await expect(page.locator(".request")).to_contain_text("go ahead")
    await page.get_by_role("link", name="Open the block").click()
    await expect(page).to_have_url(f"{desk.url}/s/{session}/b/{(await answer).block_id}")


async def test_fault_of_the_policy_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Browser) -> None:
    (tmp_path / "policy.toml").write_text("default = ")
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "policy.toml"))
    async with running_desk(tmp_path, browser) as desk:
        page = await desk.open("/approvals")
        await expect(page.get_by_role("alert")).to_contain_text("policy.toml: not valid TOML")


async def test_keys_select_edit_and_decline_requests(desk: Desk) -> None:
    session, other = await desk.open_shell(), await desk.open_shell()
    await desk.exec(session, 'mkfs.ext4() { echo formatted "$@"; }')
    answer = await desk.ask(session)
    declined = await desk.ask(other)
    page = await desk.open("/approvals")
    await expect(page.locator(".requests button")).to_have_count(2)
    await page.keyboard.press("e")
    await page.keyboard.press("ControlOrMeta+a")
    await page.keyboard.type("echo instead")
    await expect(page.locator(".screen .typed")).to_have_text("echo instead")
    await page.get_by_role("button", name="Approve the changed text").press("Enter")
    reply = await answer
    assert (reply.stdout, reply.edited) == ("instead\n", True)

    # The answered request stays selected: a key that follows answers no other one.
    await expect(page.locator(".request")).to_contain_text("approved")
    await page.keyboard.press("a")
    await page.keyboard.press("k")
    await expect(page.locator(".request .badge")).to_have_text("pending")
    await page.keyboard.press("d")
    await page.keyboard.type("not before midnight")
    await page.keyboard.press("Enter")
    with pytest.raises(PtyctlError, match="not before midnight"):
        await declined
    await expect(page.locator(".request .badge")).to_have_text("declined")


async def _open_without_replies(desk: Desk) -> tuple[Page, asyncio.Event]:
    """Open the page with two requests. The reply to an approval waits for the event."""
    session, other = await desk.open_shell(), await desk.open_shell()
    for answer in [await desk.ask(session), await desk.ask(other)]:
        answer.cancel()
    page = await desk.open("/approvals")
    is_released = asyncio.Event()

    async def hold(route: Route) -> None:
        if is_released.is_set() or '"approve"' not in (route.request.post_data or ""):
            await route.continue_()
            return
        response = await route.fetch()
        await is_released.wait()
        await route.fulfill(response=response)

    await page.route("**/api/call/approvals", hold)
    await expect(page.locator(".requests button")).to_have_count(2)
    return page, is_released


async def _approve_without_reply(desk: Desk) -> tuple[Page, asyncio.Event]:
    """Approve one of two requests, and select the other one. The reply to the page waits for the event."""
    page, is_released = await _open_without_replies(desk)
    await page.keyboard.press("a")
    await expect(page.locator(".request .badge")).to_have_text("approved")
    await page.keyboard.press("k")
    await expect(page.locator(".request .badge")).to_have_text("pending")
    return page, is_released


async def test_late_reply_to_an_answer_keeps_what_is_entered_for_the_next_request(desk: Desk) -> None:
    page, is_released = await _approve_without_reply(desk)
    await page.get_by_label("Comment").fill("not before midnight")
    await page.get_by_label("Also keys for its program, for 60 s").check()
    is_released.set()
    await expect(page.locator(".toast.good")).to_contain_text("Approved")
    await page.keyboard.press("a")  # the focus is on the checkbox
    await expect(page.locator(".facts")).to_contain_text(re.compile(r"Comment\s*not before midnight.*Keys\s*until", re.DOTALL))


async def test_request_is_answered_before_the_reply_to_the_answer_of_another_one(desk: Desk) -> None:
    page, is_released = await _approve_without_reply(desk)
    await page.keyboard.press("d")
    await page.keyboard.type("not before midnight")
    await page.keyboard.press("Enter")
    await expect(page.locator(".request .badge")).to_have_text("declined")
    is_released.set()
    await expect(page.locator(".toast.good", has_text="Approved")).to_have_count(1)


async def test_approval_is_revoked_only_after_its_reply(desk: Desk) -> None:
    page, is_released = await _open_without_replies(desk)
    await page.get_by_label("Also the same command, for 10 minutes").check()
    await page.keyboard.press("a")
    revoke = page.get_by_role("button", name="Revoke")
    await expect(revoke).to_be_disabled()
    is_released.set()
    await revoke.click()
    await expect(revoke).to_have_count(0)


async def test_approval_for_a_time_is_given_by_key_and_revoked(desk: Desk) -> None:
    session, other = await desk.open_shell(), await desk.open_shell()
    await desk.exec(session, 'mkfs.ext4() { echo formatted "$@"; }')
    (await desk.ask(other)).cancel()
    answer = await desk.ask(session)
    page = await desk.open("/approvals")
    await expect(page.locator(".requests button")).to_have_count(2)
    await page.keyboard.press("j")
    await expect(page.locator(".request header a")).to_have_text(f"session {session[-4:]}")
    await page.keyboard.press("k")
    await page.keyboard.press("j")
    await page.get_by_label("Also the same command, for 10 minutes").check()
    await page.get_by_label("Also keys for its program, for 60 s").check()
    await page.keyboard.press("a")  # the focus is on a checkbox
    assert (await answer).stdout == "formatted /dev/nope\n"
    await expect(page.locator(".facts")).to_contain_text(re.compile(r"Same command\s*until.*Keys\s*until", re.DOTALL))
    assert (await desk.exec(session, ASKED)).stdout == "formatted /dev/nope\n"
    await page.get_by_role("button", name="Revoke").click()
    await expect(page.get_by_role("button", name="Revoke")).to_have_count(0)
    assert (await desk.exec(session, ASKED, timeout_ms=0)).done_reason == "approval"
    await expect(page.locator("h1")).to_contain_text("2 waiting")


async def test_link_to_request_of_a_session_shows_only_its_requests(desk: Desk) -> None:
    session, other = await desk.open_shell(), await desk.open_shell()
    for answer in [await desk.ask(session), await desk.ask(other)]:
        answer.cancel()
    page = await desk.open("/")
    await (
        page.locator("tr", has=page.get_by_role("link", name=f"shell {session[-4:]}"))
        .get_by_role("link", name="approval")
        .click()
    )
    await expect(page.locator(".requests button")).to_have_count(1)
    await page.reload()
    await expect(page.locator(".requests button")).to_have_count(1)
    await expect(page.locator(".request header a")).to_have_text(f"session {session[-4:]}")


async def test_request_that_arrives_in_the_background_is_a_notification(desk: Desk) -> None:
    session = await desk.open_shell()
    page = await desk.open("/approvals")
    await page.add_init_script("""
        Object.defineProperty(document, "hidden", {get: () => true});
        window.shown = [];
        window.Notification = class {
            static permission = "granted";
            constructor(title, options) { window.shown.push(options.body); }
        };
    """)
    await page.reload()
    await expect(page.locator(".empty")).to_contain_text("No request waits")
    (await desk.ask(session)).cancel()
    await page.wait_for_function("() => window.shown.length")
    assert await page.evaluate("window.shown") == [f"ada/mcp on session {session[-4:]}: {ASKED}"]
    await expect(page.locator(".request .badge")).to_have_text("pending")

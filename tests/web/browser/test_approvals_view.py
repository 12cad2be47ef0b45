"""The inbox of approvals: the live screen, and answers by mouse and by keyboard."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from ptyctl.api.errors import PtyctlError

from .desk import ASKED, Desk


async def test_approved_text_is_typed_and_shown_with_its_rule_and_screen(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "PS1='host> '; rm() { echo removed \"$@\"; }")
    await desk.exec(session, "seq 100")
    answer = await desk.ask(session)
    page = await desk.open("/approvals")
    await expect(page.locator(".asked")).to_have_text(ASKED)
    await expect(page.locator(".rules")).to_contain_text("host-remove")
    await expect(page.locator(".screen .typed")).to_have_text(ASKED)
    await expect(page.locator(".screen .row", has=page.locator(".typed"))).to_contain_text(f"host> {ASKED}")
    await expect(page.locator(".screen .typed")).to_be_in_viewport()
    await page.get_by_label("Comment").fill("go ahead")
    await page.get_by_role("button", name="Approve").click()
    assert (await answer).stdout == "removed -rf /etc\n"
    await expect(page.locator(".request")).to_contain_text("approved")
    await expect(page.locator(".request")).to_contain_text("go ahead")
    await page.get_by_role("link", name="Open the block").click()
    await expect(page).to_have_url(f"{desk.url}/s/{session}/b/{(await answer).block_id}")


async def test_keys_select_edit_and_decline_requests(desk: Desk) -> None:
    session, other = await desk.open_shell(), await desk.open_shell()
    await desk.exec(session, 'rm() { echo removed "$@"; }')
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
    await expect(page.locator(".request header a")).to_have_text(f"shell {session[-4:]}")


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
    await page.wait_for_function("window.shown.length")
    assert await page.evaluate("window.shown") == [f"ada/mcp on shell {session[-4:]}: {ASKED}"]
    await expect(page.locator(".request .badge")).to_have_text("pending")

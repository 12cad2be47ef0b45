"""A line that a person types and the policy holds: it waits on the page for its approval, and is typed or reported then."""

from __future__ import annotations

from playwright.async_api import expect

from .desk import ASKED, Desk
from .test_session_page import BOB
from .visitor import Visitor, visit


async def _visit_with_held_line(desk: Desk) -> Visitor:
    """Open a shell whose `rm` is harmless, and type a line that needs an approval."""
    session = await desk.open_shell()
    await desk.exec(session, 'rm() { echo removed "$@"; }')
    alice = await visit(desk, session)
    alice.tab.expect_problem("status of 4(09|03)")  # APPROVAL_PENDING, DECLINED
    await alice.take_lock()
    await alice.type(f"{ASKED}\n")
    await expect(alice.page.locator(".held-lines")).to_contain_text(f"{ASKED} waits for an approval")
    return alice


async def test_typed_line_is_typed_once_it_is_approved(desk: Desk) -> None:
    alice = await _visit_with_held_line(desk)
    bob = await desk.open_tab("/approvals", BOB)
    await bob.page.get_by_role("button", name="Approve").click()
    await alice.wait_for_text("\nremoved -rf /etc\n")
    await expect(alice.page.locator(".held-lines")).to_have_count(0)
    await expect(alice.card(ASKED)).to_have_count(1)


async def test_typed_line_that_is_declined_is_reported_with_the_comment(desk: Desk) -> None:
    alice = await _visit_with_held_line(desk)
    bob = await desk.open_tab("/approvals", BOB)
    await bob.page.get_by_role("button", name="Decline").click()
    await bob.page.get_by_role("textbox", name="Comment for the requester").fill("not before midnight")
    await bob.page.keyboard.press("Enter")
    await expect(alice.page.locator(".held-lines")).to_contain_text("bob declined it: not before midnight")
    await alice.page.get_by_role("button", name="Dismiss").click()
    await expect(alice.page.locator(".held-lines")).to_have_count(0)

"""A line that a person types and the policy holds: it waits on the page for its approval, and is typed or reported then."""

from __future__ import annotations

from playwright.async_api import Route, expect

from ptyctl.api import ExecRequest
from ptyctl.core.principal import Kind, Principal, Role
from ptyctl.session.clients import serving_connection

from .desk import ASKED, Desk
from .test_session_page import BOB
from .visitor import Visitor, visit

#: Holds 7 lines; resolves to the largest number of writes that waited at a time, once all lines were typed at their second try.
_TYPE_HELD_LINES = """() => new Promise(async (resolve) => {
    const { createHeldLines } = await import("/static/held_lines.js");
    const tries = new Map();
    let waiting = 0, most = 0, typed = 0;
    window.fetch = async (path, { body }) => {
        if (path.endsWith("/approvals")) return Response.json({});
        const { approval_id: id } = JSON.parse(body);
        most = Math.max(most, ++waiting);
        await new Promise((answer) => setTimeout(answer));
        waiting -= 1;
        tries.set(id, (tries.get(id) ?? 0) + 1);
        if (tries.get(id) === 1) return Response.json({ error: { error_code: "APPROVAL_PENDING" } }, { status: 409 });
        if (++typed === 7) resolve(most);
        return Response.json({});
    };
    const held = createHeldLines("s", () => {}, () => {}, () => {});
    for (let id = 1; id <= 7; id++) void held.add({ data: "x" }, { details: { approval_id: id } });
})"""


async def _visit_with_held_line(desk: Desk) -> Visitor:
    """Open a shell whose `mkfs.ext4` only prints, and type a line that needs an approval."""
    session = await desk.open_shell()
    await desk.exec(session, 'mkfs.ext4() { echo formatted "$@"; }')
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
    await alice.wait_for_text("\nformatted /dev/nope\n")
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


async def test_held_line_survives_a_look_at_its_request_and_is_typed(desk: Desk) -> None:
    alice = await _visit_with_held_line(desk)
    await alice.page.get_by_role("link", name="Show the request").click()
    await expect(alice.page.locator(".request")).to_contain_text("You asked for this")
    await expect(alice.page.locator(".request .badge")).to_have_text("pending")
    await alice.page.go_back()
    await expect(alice.page.locator(".held-lines")).to_contain_text(f"{ASKED} waits for an approval")
    bob = await desk.open_tab("/approvals", BOB)
    await bob.page.get_by_role("button", name="Approve").click()
    await alice.wait_for_text("\nformatted /dev/nope\n")
    await expect(alice.page.locator(".held-lines")).to_have_count(0)


async def test_held_line_is_typed_while_its_person_looks_at_the_request(desk: Desk) -> None:
    alice = await _visit_with_held_line(desk)
    await alice.page.get_by_role("link", name="Show the request").click()
    await expect(alice.page.locator(".request .badge")).to_have_text("pending")
    bob = await desk.open_tab("/approvals", BOB)
    await bob.page.get_by_role("button", name="Approve").click()
    await expect(alice.page.locator(".toast.good")).to_contain_text(f"typed: {ASKED}")
    await expect(alice.page.locator(".request .facts")).to_contain_text("yes")


async def test_person_without_the_role_approver_sees_their_own_requests(desk: Desk) -> None:
    session = await desk.open_shell()
    eve = Principal("eve", Kind.PERSON, Role.OPERATOR)
    (await desk.ask(session)).cancel()
    with serving_connection(eve):
        request = ExecRequest(session_id=session, cmd=f"{ASKED} eve", task_id="eve", timeout_ms=0)
        assert (await desk.controller.exec(request)).done_reason == "approval"
    page = (await desk.open_tab("/approvals", eve)).page
    await expect(page.locator(".requests button")).to_have_count(1)
    await expect(page.locator(".asked")).to_have_text(f"{ASKED} eve")
    await expect(page.locator(".request .notice")).to_contain_text("not answer it")
    await expect(page.get_by_role("link", name="Approvals")).to_contain_text("1")


async def test_many_held_lines_use_one_connection_of_the_browser(desk: Desk) -> None:
    page = await desk.open()
    assert await page.evaluate(_TYPE_HELD_LINES) == 1


async def test_held_line_whose_typing_was_not_answered_is_reported_as_typed(desk: Desk) -> None:
    alice = await _visit_with_held_line(desk)

    async def lose_reply(route: Route) -> None:
        reply = await route.fetch()
        await (route.abort() if reply.ok else route.fulfill(response=reply))

    alice.tab.expect_problem("ERR_FAILED")
    await alice.page.route("**/api/call/ptyctl_session_io", lose_reply)
    await alice.page.reload()  # the call that waits now is not routed
    await expect(alice.page.locator(".held-lines")).to_contain_text(f"{ASKED} waits for an approval")
    bob = await desk.open_tab("/approvals", BOB)
    await bob.page.get_by_role("button", name="Approve").click()
    await alice.wait_for_text("\nformatted /dev/nope\n")
    await expect(alice.page.locator(".toast.good")).to_contain_text(f"typed already: {ASKED}")
    await expect(alice.page.locator(".held-lines")).to_have_count(0)

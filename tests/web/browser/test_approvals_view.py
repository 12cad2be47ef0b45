"""The inbox of approvals: the live screen, and answers by mouse and by keyboard."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route, expect

from ptyctl.api import ExecRequest, IoRequest, SessionRequest
from ptyctl.api.approvals import ApprovalsRequest
from ptyctl.api.errors import PtyctlError
from ptyctl.session.clients import serving_connection

from .desk import AGENT, ASKED, Desk, navigate, running_desk


async def _press_when_read(page: Page, key: str) -> None:
    """Press a key once the selected request was visible long enough."""
    await expect(page.locator(".request button.primary")).to_be_enabled()
    await page.keyboard.press(key)


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
    await _press_when_read(page, "e")
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
    await _press_when_read(page, "a")
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
    await _press_when_read(page, "a")  # the focus is on the checkbox
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
    await _press_when_read(page, "a")
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
    await _press_when_read(page, "a")  # the focus is on a checkbox
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
    await expect(page.locator(".requests button")).to_have_count(1)


async def test_request_that_arrives_in_an_empty_inbox_is_not_selected_nor_answered_by_a_key(desk: Desk) -> None:
    session = await desk.open_shell()
    page = await desk.open("/approvals")
    await expect(page.locator(".empty")).to_contain_text("No request waits")
    answer = await desk.ask(session)
    await expect(page.locator(".requests button")).to_have_count(1)
    for key in "aaeda":
        await page.keyboard.press(key)
    await expect(page.locator(".request, dialog")).to_have_count(0)
    (waiting,) = (await desk.controller.approvals(ApprovalsRequest(state="pending"))).approvals or []
    await page.keyboard.press("j")
    await expect(page.locator(".request .badge")).to_have_text("pending")
    await _press_when_read(page, "a")
    assert (await answer).exit_code is not None
    assert (await _state(desk, waiting.approval_id))[0] == "approved"


async def _state(desk: Desk, approval_id: str) -> tuple[str, str | None]:
    entry = (await desk.controller.approvals(ApprovalsRequest(action="get", approval_id=approval_id))).approval
    assert entry is not None
    return entry.state, entry.comment


@pytest.mark.parametrize("how", ["key", "button"])
async def test_request_is_not_approved_within_its_first_second(desk: Desk, how: str) -> None:
    session = await desk.open_shell()
    (await desk.ask(session)).cancel()
    page = await desk.open("/approvals")
    await expect(page.locator(".request .badge")).to_have_text("pending")
    # In one turn of the page, so that the machine's pace does not matter.
    script = """async (how) => {
        const { navigate } = await import("/static/router.js");
        navigate("/approvals?again=1");
        const started = performance.now();
        while (!document.querySelector(".request button.primary")) await new Promise(requestAnimationFrame);
        const approve = document.querySelector(".request button.primary");
        const isDisabled = approve.disabled;
        if (how === "button") approve.click();
        else document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
        return performance.now() - started < 1_000 ? isDisabled : null;
    }"""
    assert await page.evaluate(script, how) is not False
    await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    await expect(page.locator(".request .badge")).to_have_text("pending")


async def test_text_of_many_lines_is_approved_only_after_its_end_was_shown(desk: Desk) -> None:
    session = await desk.open_shell()
    text = "".join(f"echo line {number}\n" for number in range(300)) + ASKED
    (await desk.ask(session, text)).cancel()
    page = await desk.open("/approvals")
    await expect(page.locator(".asked mark")).to_have_text("mkfs.ext4")
    approve = page.get_by_role("button", name="Approve")
    await expect(page.locator(".answer .hint")).to_contain_text("Scroll to the end of the text")
    for key in "ae":
        await page.keyboard.press(key)
    await expect(approve).to_be_disabled()
    await expect(page.locator(".request .badge")).to_have_text("pending")
    await page.locator(".asked").evaluate("element => element.scrollTo(0, element.scrollHeight / 2)")
    await expect(approve).to_be_disabled()
    await page.locator(".asked").evaluate("element => element.scrollTo(0, element.scrollHeight)")
    await expect(approve).to_be_enabled()
    await page.keyboard.press("a")
    await expect(page.locator(".request .badge")).not_to_have_text("pending")


async def test_approval_of_a_request_that_turns_out_stale_is_not_reported_as_typed(desk: Desk) -> None:
    session = await desk.open_shell()
    write = {"session_id": session, "task_id": "night", "action": "write", "data": f"{ASKED}\n"}
    with serving_connection(AGENT), pytest.raises(PtyctlError, match="must approve") as held:
        await desk.controller.io(IoRequest.of(write))
    page = await desk.open("/approvals")
    await _press_when_read(page, "a")
    await expect(page.locator(".toast.good")).to_contain_text("not typed yet")
    await expect(page.locator(".facts")).to_contain_text(re.compile(r"Typed\s*not yet"))
    with serving_connection(AGENT):
        await desk.controller.io(IoRequest.of({**write, "data": "cd /\n"}))
        await desk.controller.io(
            IoRequest.of({"session_id": session, "action": "read", "until_idle_ms": 200, "timeout_ms": 20_000})
        )
        with pytest.raises(PtyctlError, match="no longer valid"):
            await desk.controller.io(IoRequest.of({**write, "approval_id": held.value.details["approval_id"]}))
    await expect(page.locator(".toast.bad")).to_contain_text("The request is stale, and nothing was typed")
    await expect(page.locator(".request .badge")).to_have_text("stale")
    await expect(page.locator(".request .facts")).to_contain_text(re.compile(r"Because.*changed", re.DOTALL))


async def test_request_whose_lock_expires_leaves_the_list(desk: Desk) -> None:
    session = await desk.open_shell()
    with serving_connection(AGENT):
        await desk.controller.session(SessionRequest(action="lock", session_id=session, task_id="night", lock_ttl_ms=600_000))
    (await desk.ask(session)).cancel()
    page = await desk.open("/approvals")
    await expect(page.locator("h1")).to_contain_text("1 waiting")
    with serving_connection(AGENT):
        await desk.controller.session(SessionRequest(action="heartbeat", session_id=session, task_id="night", lock_ttl_ms=1))
    await expect(page.locator("h1")).to_contain_text("0 waiting")
    await expect(page.locator(".request .badge")).to_have_text("stale")
    await expect(page.get_by_role("button", name="Approve")).to_have_count(0)


@pytest.mark.parametrize("has_storage", [True, False])
async def test_letter_keys_are_off_also_after_a_reload_or_without_storage(desk: Desk, has_storage: bool) -> None:
    session = await desk.open_shell()
    (await desk.ask(session)).cancel()
    page = await desk.open("/approvals")
    if not has_storage:
        await page.add_init_script("Object.defineProperty(window, 'localStorage', {get() { throw new Error('blocked'); }});")
        await page.reload()
    await page.get_by_label("Single-letter keys").uncheck()
    if has_storage:
        await page.reload()
    await _press_when_read(page, "a")
    for key in "dejk":
        await page.keyboard.press(key)
    await expect(page.locator("dialog, .request textarea")).to_have_count(0)
    await expect(page.locator(".request .badge")).to_have_text("pending")
    await navigate(page, "/")
    await page.keyboard.press("/")
    await expect(page.get_by_label("Filter")).not_to_be_focused()


async def test_names_with_bidirectional_characters_do_not_reorder_the_sentence(desk: Desk) -> None:
    session = await desk.open_shell()
    task = "night\u202e no sksa \u05d0\u05d1"
    with serving_connection(AGENT):
        request = ExecRequest(session_id=session, cmd=ASKED, task_id=task, timeout_ms=0)
        assert (await desk.controller.exec(request)).done_reason == "approval"
    page = await desk.open("/approvals")
    sentence = page.locator(".request header p")
    await expect(sentence).to_contain_text("ada/mcp, task night\\u202e no sksa \u05d0\u05d1, asks on")
    # The words after the name are to the right of it, whatever its direction is.
    script = """(sentence) => {
        const name = [...sentence.querySelectorAll("bdi")].find(({ textContent }) => textContent.includes("sksa"));
        const range = document.createRange();
        range.selectNodeContents(name.nextSibling);
        return [name.getBoundingClientRect().right, range.getBoundingClientRect().left];
    }"""
    right, left = await sentence.evaluate(script)
    assert right <= left + 1

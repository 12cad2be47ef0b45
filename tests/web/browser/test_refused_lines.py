"""Lines that the policy refuses within an unfinished command: the page holds what is typed after them, and says so."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from tests.controller.test_refused_lines import POLICY

from .desk import Desk, running_desk
from .test_session_page import BOB
from .visitor import Visitor, visit

_PASTE = "text => { shownTerminal().paste(text); return true; }"
#: Fields and tools of the protocol, which mean nothing to a person.
_FIELDS = re.compile(r"approval_id|task_id|session_id|block_id|ptyctl_session|key=")


@pytest_asyncio.fixture(loop_scope="session")
async def strict_desk(tmp_path: Path, browser: Browser) -> AsyncIterator[Desk]:
    """A web console whose policy refuses some words wherever they are typed."""
    async with running_desk(tmp_path, browser, POLICY) as running:
        yield running


async def _visit_here_document(desk: Desk, folder: Path) -> Visitor:
    """Open a shell, and type the beginning of a here-document."""
    session = await desk.open_shell(cwd=str(folder))
    await desk.exec(session, "true")
    alice = await visit(desk, session)
    alice.tab.expect_problem("status of 4(09|03)")  # APPROVAL_PENDING, BUSY, POLICY_DENIED
    await alice.take_lock()
    await alice.type("cat <<X\n")
    await alice.wait_for_text("cat <<X\n")
    return alice


def _notice(alice: Visitor) -> Locator:
    return alice.page.locator(".notice.refused")


async def test_refused_line_of_here_document_holds_what_is_typed_until_ctrl_c(strict_desk: Desk, tmp_path: Path) -> None:
    alice = await _visit_here_document(strict_desk, tmp_path)
    await alice.type("forbidden\n")
    await expect(_notice(alice)).to_contain_text("Refused: forbidden (a test)")
    await expect(_notice(alice)).to_contain_text("nothing more that you type is sent")
    assert not _FIELDS.search(await _notice(alice).inner_text())
    await alice.type("touch RAN\n")
    await expect(_notice(alice)).to_contain_text("10 keys were not sent")
    await alice.page.keyboard.press("Control+C")
    await expect(_notice(alice)).to_have_count(0)
    await alice.wait_for_terminal(_PASTE, "echo a''one\necho b''two\n")
    await alice.page.keyboard.press("Enter")
    await alice.wait_for_text("\nbtwo\n")
    assert not (tmp_path / "RAN").exists()


async def test_button_leaves_the_unfinished_command_of_a_refused_line(strict_desk: Desk, tmp_path: Path) -> None:
    alice = await _visit_here_document(strict_desk, tmp_path)
    await alice.type("forbidden\ntouch RAN\nX\n")  # typed ahead of the answer
    await expect(_notice(alice)).to_contain_text("Refused")
    await _notice(alice).get_by_role("button", name="Leave the command").click()
    await expect(_notice(alice)).to_have_count(0)
    await alice.type("echo af''ter\n")
    await alice.wait_for_text("\nafter\n")
    assert not (tmp_path / "RAN").exists()


async def test_held_input_is_reported_after_a_reload(strict_desk: Desk, tmp_path: Path) -> None:
    alice = await _visit_here_document(strict_desk, tmp_path)
    await alice.type("forbidden\n")
    await expect(_notice(alice)).to_contain_text("Refused")
    await alice.page.reload()
    await alice.expect_lock("You have the lock")
    await alice.type("t")
    await expect(_notice(alice)).to_contain_text("A line of yours was refused.")
    await alice.type("ouch RAN\n")
    await alice.page.keyboard.press("Control+C")
    await alice.type("echo af''ter\n")
    await alice.wait_for_text("\nafter\n")
    assert not (tmp_path / "RAN").exists()


async def test_declined_line_of_here_document_is_reported_and_input_stays_held(strict_desk: Desk, tmp_path: Path) -> None:
    alice = await _visit_here_document(strict_desk, tmp_path)
    await alice.type("questionable\n")
    await expect(_notice(alice)).to_contain_text("Wait until the line is approved")
    (asked,) = (await alice.call("approvals", action="list"))["approvals"]
    async with strict_desk.agent(BOB) as bob:
        assert (await bob("approvals", action="decline", approval_id=asked["approval_id"]))["approval"]["state"] == "declined"
    await expect(_notice(alice)).to_contain_text("Refused: questionable")
    await expect(_notice(alice)).not_to_contain_text("Wait until")
    await alice.type("touch RAN\n")
    await expect(_notice(alice)).to_contain_text("10 keys were not sent")
    await alice.page.keyboard.press("Control+C")
    await expect(_notice(alice)).to_have_count(0)
    await alice.type("echo af''ter\n")
    await alice.wait_for_text("\nafter\n")
    assert not (tmp_path / "RAN").exists()


async def test_approved_line_of_here_document_is_typed_and_input_goes_on(strict_desk: Desk, tmp_path: Path) -> None:
    alice = await _visit_here_document(strict_desk, tmp_path)
    await alice.type("questionable\n")
    await expect(_notice(alice)).to_contain_text("Not run yet: questionable (a question)")
    assert not _FIELDS.search(await alice.page.locator("main").inner_text())
    bob = await strict_desk.open_tab("/approvals", BOB)
    await bob.page.get_by_role("button", name="Approve").click()
    await expect(_notice(alice)).to_have_count(0)
    await alice.type("af''ter\nX\n")
    await alice.wait_for_text("\nquestionable\naf''ter\n")


async def test_lines_that_are_pasted_after_ctrl_c_at_the_prompt_are_typed(strict_desk: Desk) -> None:
    session = await strict_desk.open_shell()
    await strict_desk.exec(session, "true")
    alice = await visit(strict_desk, session)
    await alice.take_lock()
    for _ in range(2):
        await alice.type("abc")
        await alice.wait_for_text("abc")
        await alice.page.keyboard.press("Control+C")
    await alice.wait_for_terminal(_PASTE, "echo a''one\necho b''two\n")
    await alice.page.keyboard.press("Enter")
    await alice.wait_for_text("\nbtwo\n")


async def test_line_that_is_refused_at_the_prompt_names_what_a_person_can_do(strict_desk: Desk) -> None:
    alice = await visit(strict_desk, await strict_desk.open_shell())
    alice.tab.expect_problem("status of 403")
    await alice.take_lock()
    await alice.type("forbidden\n")
    refusal = alice.page.locator(".toast.bad")
    await expect(refusal).to_contain_text("the policy denies this text")
    assert not _FIELDS.search(await refusal.inner_text())
    await expect(_notice(alice)).to_have_count(0)
    await alice.type("echo af''ter\n")
    await alice.wait_for_text("\nafter\n")

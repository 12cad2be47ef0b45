"""Input typed between a request for the lock and its answer: sent in order, or discarded as a whole."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Route, expect

from .desk import Desk, navigate
from .visitor import Visitor


async def _visit(desk: Desk) -> Visitor:
    """Open the page of a new shell, which keeps input for longer than the answer takes on a busy machine."""
    visitor = Visitor(await desk.open_tab("/audit"))
    await visitor.set_constant("typeahead.js", "LONGEST_MS", 60_000)
    await navigate(visitor.page, f"/s/{await desk.open_shell()}")
    return visitor


async def _request_lock(visitor: Visitor, *, by_key: bool = False) -> Route:
    """Request the lock; return the request, which waits for the test."""
    requested: asyncio.Future[Route] = asyncio.get_running_loop().create_future()

    async def hold(route: Route) -> None:
        if '"lock"' in (route.request.post_data or "") and not requested.done():
            requested.set_result(route)
        else:
            await route.continue_()

    await visitor.expect_lock("Nobody has the lock")
    await visitor.page.route("**/api/call/ptyctl_session", hold)
    if by_key:
        await visitor.page.keyboard.press("Control+Shift+L")
    else:
        await visitor.page.get_by_role("button", name="Take the lock").click()
    return await requested


@pytest.mark.parametrize("by_key", [False, True], ids=["button", "key"])
async def test_keys_before_the_answer_are_sent_first_once_the_lock_is_granted(desk: Desk, by_key: bool) -> None:
    alice = await _visit(desk)
    answer = await _request_lock(alice, by_key=by_key)
    await alice.page.keyboard.type("echo $((6 ")
    await answer.continue_()
    await alice.page.keyboard.type("* 7))\n")
    await alice.wait_for_text("\n42\n")
    await expect(alice.card("echo $((6 * 7))")).to_contain_text("completed")


async def test_keys_before_a_lost_answer_are_discarded_with_a_message(desk: Desk) -> None:
    alice = await _visit(desk)
    alice.tab.expect_problem("status of 409|ERR_")
    answer = await _request_lock(alice)
    await alice.page.keyboard.type("echo never")
    await answer.abort()
    await alice.expect_lock("Nothing was typed. You did not get the lock.")
    await alice.take_lock()
    await alice.type("echo $((6 * 7))\n")
    await alice.wait_for_text("\n42\n")
    assert "never" not in await alice.text()


async def test_more_input_than_is_kept_is_discarded_with_the_rest_of_the_wait(desk: Desk) -> None:
    alice = await _visit(desk)
    answer = await _request_lock(alice)
    await alice.page.keyboard.insert_text("never" * 1_000)
    await alice.expect_lock("Nothing was typed. You typed more than 4096 characters")
    await alice.page.keyboard.type("never")
    await answer.continue_()
    await alice.expect_lock("You have the lock.")
    await alice.expect_lock("Nothing was typed. You typed more than 4096 characters")
    await alice.call("ptyctl_session_exec", session_id=alice.page.url.rsplit("/", 1)[1], task_id="web", cmd="echo $((6 * 7))")
    await alice.wait_for_text("\n42\n")
    assert "never" not in await alice.text()

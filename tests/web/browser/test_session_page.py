"""The page of a session: the live terminal, its cards, the lock between two people, and the end of the session."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, WebSocketRoute, expect

from ptyctl.core.principal import Kind, Principal, Role

from .desk import Desk, running_desk
from .visitor import Visitor, visit

#: Whether a visible row of the terminal is `line 1` in red.
_SHOWS_RED_LINE = """() => {
    const { buffer, rows } = shownTerminal();
    const visible = Array.from({ length: rows }, (_, row) => buffer.active.getLine(buffer.active.viewportY + row));
    return visible.find((line) => line?.translateToString(true) === "line 1")?.getCell(0).getFgColor() === 1;
}"""

BOB = Principal("bob", Kind.PERSON, Role.ADMIN)


async def test_typed_command_appears_in_terminal_and_in_one_card(desk: Desk) -> None:
    alice = await visit(desk, await desk.open_shell())
    await alice.expect_lock("Nobody has the lock")
    await alice.type("x")
    await alice.expect_lock("Nothing was typed: you only watch")
    await alice.take_lock()
    await alice.type("echo $((6 * 7))\n")
    await alice.wait_for_text("\n42\n")
    await expect(alice.card("echo $((6 * 7))")).to_contain_text("completed")
    await expect(alice.card("echo $((6 * 7))").locator(".output")).to_have_text("42")
    await alice.page.reload()
    await alice.wait_for_text("\n42\n")
    await expect(alice.card("echo $((6 * 7))")).to_have_count(1)


async def test_command_of_the_card_view_runs_and_can_be_typed_again(desk: Desk) -> None:
    alice = await visit(desk, await desk.open_shell())
    await alice.take_lock()
    await alice.page.get_by_role("button", name="Type commands here").click()
    field = alice.page.get_by_role("textbox", name="Command", exact=True)
    await field.fill("printf '<b>%s</b>\\n' {1..20}")
    await field.press("Enter")
    card = alice.card("printf '<b>%s</b>\\n' {1..20}")
    await expect(card).to_contain_text("completed")
    await expect(card.locator(".output")).to_contain_text("<b>8</b>")
    await card.get_by_role("button", name="Show 12 more lines").click()
    await expect(card.locator(".output")).to_contain_text("<b>20</b>")
    await card.hover()
    await card.get_by_role("button", name="Run again").click()
    await expect(field).to_have_value("printf '<b>%s</b>\\n' {1..20}")
    await expect(card).to_have_count(1)


async def _open_without_terminal(desk: Desk, session: str) -> tuple[Visitor, asyncio.Event]:
    """Open the page of a session. The terminal, and with it the state of the session, waits for the event."""
    visitor, is_released = Visitor(await desk.open_tab("/audit")), asyncio.Event()

    async def connect(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        async def receive(text: str | bytes) -> None:
            if json.loads(text).get("topic") == f"terminal:{session}":
                await is_released.wait()
            server.send(text)

        socket.on_message(receive)

    await visitor.page.route_web_socket("**/api/stream", connect)
    await visitor.page.goto(f"{desk.url}/s/{session}")
    return visitor, is_released


async def test_page_names_no_holder_of_the_lock_before_it_knows_the_session(desk: Desk) -> None:
    session = await desk.open_shell(acquire_lock=True, lock_ttl_ms=600_000)
    alice, is_released = await _open_without_terminal(desk, session)
    await alice.expect_lock("Loading")
    await expect(alice.lock_bar).not_to_contain_text("Nobody")
    is_released.set()
    await alice.expect_lock("ada/mcp (night) has the lock")


async def test_command_of_the_card_view_runs_before_the_state_of_the_session_is_known(desk: Desk) -> None:
    alice, is_released = await _open_without_terminal(desk, await desk.open_shell())
    await alice.take_lock()
    await alice.page.get_by_role("button", name="Type commands here").click()
    await alice.page.get_by_role("textbox", name="Command", exact=True).fill("echo $((6 * 7))")
    async with alice.page.expect_request("**/api/call/ptyctl_session_exec"):
        await alice.page.keyboard.press("Enter")
    is_released.set()
    await expect(alice.card("echo $((6 * 7))")).to_contain_text("completed")


async def test_keys_that_are_typed_before_the_lock_is_given_back_are_sent_first(desk: Desk) -> None:
    alice, is_released = await visit(desk, await desk.open_shell()), asyncio.Event()

    async def hold(route: Route) -> None:
        await is_released.wait()
        await route.continue_()

    await alice.page.route("**/api/call/ptyctl_session_io", hold)
    await alice.take_lock()
    await alice.type("echo $((6 * 7))\n")
    await alice.page.keyboard.press("Control+Shift+L")
    is_released.set()
    await alice.expect_lock("Nobody has the lock")
    await alice.wait_for_text("\n42\n")


async def test_lock_is_given_back_after_the_answer_to_its_renewal(desk: Desk) -> None:
    alice = Visitor(await desk.open_tab("/audit"))
    is_held, is_released, released = asyncio.Event(), asyncio.Event(), list[str]()

    async def hold(route: Route) -> None:
        action = json.loads(route.request.post_data or "{}")["action"]
        if action == "heartbeat" and not is_held.is_set():
            is_held.set()
            await is_released.wait()
        if action == "unlock":
            released.append(action)
        await route.continue_()

    await alice.page.route("**/api/call/ptyctl_session", hold)
    await alice.page.clock.install()
    await alice.page.goto(f"{desk.url}/s/{await desk.open_shell()}")
    await alice.take_lock()
    await alice.page.clock.fast_forward(10_000)
    await is_held.wait()
    await alice.page.keyboard.press("Control+Shift+L")
    await alice.page.evaluate("document.title")  # the page has handled the key
    assert not released
    is_released.set()
    await alice.expect_lock("Nobody has the lock")
    assert released


async def test_denied_command_has_a_card_that_says_it_was_not_typed(
    tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'extends = ["off"]\n[[rules]]\nid = "disks"\ncommand = ["mkfs.*", "**"]\ndecision = "deny"\nreason = "formats a disk"\n'
        'matches = ["mkfs.ext4 /dev/nope"]\npasses = ["ls /dev"]\n'
    )
    monkeypatch.setenv("PTYCTL_POLICY", str(policy))
    async with running_desk(tmp_path, browser) as desk:
        session = await desk.open_shell()
        alice = await visit(desk, session)
        await alice.take_lock()
        await alice.page.get_by_role("button", name="Type commands here").click()
        alice.tab.expect_problem("status of 403")
        await alice.page.get_by_role("textbox", name="Command", exact=True).fill("mkfs.ext4 /dev/nope")
        await alice.page.keyboard.press("Enter")
        card = alice.card("mkfs.ext4 /dev/nope")
        await expect(card.locator(".badge.bad")).to_have_text("denied")
        await card.locator("a.cmd").click()
        await expect(alice.page.get_by_text("The command was not typed.")).to_be_visible()


async def test_terminal_has_what_happened_before_the_page_was_opened(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "for i in {1..300}; do printf '\\033[31mline %s\\033[m\\n' $i; done")
    alice = await visit(desk, session)
    await alice.wait_for_text("\nline 1\n")
    assert [line for line in (await alice.text()).split("\n") if line.startswith("line ")] == [
        f"line {n}" for n in range(1, 301)
    ]
    await alice.page.locator(".term-box .xterm-screen").hover()
    await alice.page.mouse.wheel(0, -1_000)
    await alice.wait_for_terminal("() => shownTerminal().buffer.active.viewportY < shownTerminal().buffer.active.baseY")
    await alice.page.evaluate("() => shownTerminal().scrollToTop()")  # one turn of the wheel moves a few rows
    await alice.wait_for_terminal(_SHOWS_RED_LINE)


async def test_card_has_the_colours_of_its_output(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "printf '\\033[1;31merror\\033[m: \\033[38;2;1;2;3m<b>x</b>\\033[m\\nplain\\n'; cd /")
    alice = await visit(desk, session)
    output = alice.page.locator(".card .output")
    await expect(output.locator("span")).to_have_text(["error", "<b>x</b>"])
    await expect(output).to_have_text("error: <b>x</b>\nplain")
    await expect(output.locator("span").first).to_have_css("color", "rgb(179, 38, 30)")
    await expect(output.locator("span").first).to_have_css("font-weight", "700")
    await expect(output.locator("span").last).to_have_css("color", "rgb(1, 2, 3)")


async def test_card_has_colours_that_are_read_once_before_the_event_of_its_end(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "printf '\\033[31mred\\033[m %s\\n' {1..12}")
    page = await desk.open()
    reads: list[str] = []

    async def reply_running(route: Route) -> None:
        reply = await (await route.fetch()).json()
        for block in reply["items"]:
            block |= {"ts_end": None, "status": "running"}
        await route.fulfill(json=reply)

    await page.route("**/api/call/blocks_since", reply_running)
    page.on("request", lambda request: reads.append(request.post_data or "") if request.url.endswith("/blocks_read") else None)
    await page.goto(f"{desk.url}/s/{session}")
    output = page.locator(".card .output")
    await expect(output.locator("span")).to_have_text(["red"] * 8)
    await page.get_by_role("button", name="Show 4 more lines").click()
    await expect(output.locator("span")).to_have_text(["red"] * 12)
    await page.get_by_role("button", name="Show less").click()
    await expect(output.locator("span")).to_have_text(["red"] * 8)
    assert sum('"raw"' in read for read in reads) == 1


async def test_equal_lines_of_a_card_keep_their_own_colours(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(
        session, "printf '\\033[31msame\\033[m\\nsame\\n\\033[32msame\\033[m\\n\\033[31msame\\033[m\\n'; seq 9; cd /"
    )
    alice = await visit(desk, session)
    spans = alice.page.locator(".card .output span")
    await expect(spans).to_have_count(3)
    red, green = "rgb(179, 38, 30)", "rgb(26, 107, 52)"
    for number, colour in enumerate([red, green, red]):
        await expect(spans.nth(number)).to_have_css("color", colour)
    await expect(alice.page.locator(".card .output")).to_contain_text("same\nsame\nsame\nsame\n")


@pytest.mark.parametrize("size", [40_000, 300_000])
async def test_first_line_that_is_very_long_hides_neither_the_rest_nor_the_error(desk: Desk, size: int) -> None:
    session = await desk.open_shell()
    await desk.exec(session, f"head -c {size} /dev/zero | tr '\\0' x; echo; echo second; echo the error >&2; false; cd /nope")
    alice = await visit(desk, session)
    output = alice.page.locator(".card .output")
    await expect(output).to_contain_text("the error")
    await expect(output).to_contain_text("cd: /nope")
    await alice.page.get_by_role("button", name="Show more").click()
    await expect(output).to_contain_text("x" * 30_000)
    await expect(output).to_contain_text("the error")
    await alice.page.get_by_role("button", name="Show less").click()
    await expect(output).not_to_contain_text("x" * 30_000)
    await expect(output).to_contain_text("the error")


async def test_card_with_a_very_long_line_of_colours_has_its_text(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "printf '\\033[31mred\\033[m %s\\n' {1..12}; printf '\\033[31mx\\033[32my%.0s' {1..300}; cd /")
    alice = await visit(desk, session)
    output = alice.page.locator(".card .output")
    await expect(output.locator("span")).to_have_text(["red"] * 8)
    await alice.page.get_by_role("button", name="Show 5 more lines").click()
    await expect(output.locator("span")).to_have_text(["red"] * 12)
    await expect(output).to_have_text("\n".join([*(f"red {n}" for n in range(1, 13)), "xy" * 300]))


async def test_styles_of_a_card_follow_colons_and_skip_unknown_codes(desk: Desk) -> None:
    page = await desk.open()
    styles = {
        "4:3": {"underline": True},
        "4;4:0": {},
        "58;5;1;3": {"italics": True},
        "58:2::1:2:3;1": {"bold": True},
        "38:2::1:2:3": {"fg": "#010203"},
        "38:2:1:2:3;48;2;4;5;6": {"fg": "#010203", "bg": "#040506"},
        "38:5:208;48;5;9;1": {"fg": "color208", "bg": "color9", "bold": True},
        "38;2": {},
        "38": {},
        "8": {},
        "98;37": {"fg": "color7"},
    }
    script = """async (codes) => {
        const { attributesOf } = await import("/static/attributes.js");
        return codes.map((code) => attributesOf(`\\x1b[${code}mtext`).get("text")?.[0] ?? {});
    }"""
    runs = await page.evaluate(script, list(styles))
    found = [{name: run[name] for name in run if name not in ("begin", "end")} for run in runs]
    assert dict(zip(styles, found, strict=True)) == styles


async def test_lock_passes_between_two_people_with_reason_queue_and_size(desk: Desk) -> None:
    session = await desk.open_shell()
    alice, bob = await visit(desk, session), await visit(desk, session, BOB, width=900, height=700)
    alice.tab.expect_problem("status of 409")  # LOCKED, while it waits in the queue
    await alice.take_lock()
    await bob.expect_lock("alice (web) has the lock")
    await bob.type("x")
    await bob.expect_lock("Nothing was typed: alice (web) has the lock")
    await expect(bob.page.locator(".session-head small")).not_to_contain_text("120×40")  # the window of alice is larger
    size = (await bob.page.locator(".session-head small").inner_text()).split()[0]
    await alice.type("echo $((20 + 1)) of alice\n")
    await bob.wait_for_text("\n21 of alice\n")

    await bob.page.get_by_role("button", name="Take over").click()
    await bob.page.get_by_role("textbox", name="Reason").fill("the maintenance window begins")
    await bob.page.keyboard.press("Enter")
    await bob.expect_lock("You have the lock.")
    await alice.expect_lock("bob (web) has the lock")
    await expect(alice.page.locator(".messages")).to_contain_text("the maintenance window begins")
    await alice.type("echo never\n")
    await alice.expect_lock("Nothing was typed: bob (web) has the lock")
    await expect(alice.page.locator(".session-head small")).not_to_contain_text(size)  # the window of bob is smaller
    await bob.type("echo $((20 + 2)) of bob\n")
    await alice.wait_for_text("\n22 of bob\n")
    assert "never" not in await alice.text()

    await alice.page.get_by_role("button", name="Wait in the queue").click()
    await alice.expect_lock("You are number 1 in the queue")
    await bob.page.keyboard.press("Control+Shift+L")
    await alice.expect_lock("You have the lock.")
    await bob.expect_lock("alice (web) has the lock")


async def test_session_that_is_busy_is_watched_once_it_is_not(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "echo shown")
    visitor = Visitor(await desk.open_tab("/audit"))
    await visitor.set_constant("stream.js", "LONGEST_DELAY_MS", 500)
    error = {"error_code": "BUSY", "message": "the screen is 5 bytes behind", "details": {}, "retryable": True}
    is_busy, refused = [True], asyncio.Queue[str]()

    async def connect(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def receive(text: str | bytes) -> None:
            message = json.loads(text)
            if is_busy[0] and message.get("topic") in (f"terminal:{session}", f"screen:{session}"):
                refused.put_nowait(message["topic"])
                socket.send(json.dumps({"op": "error", "id": message["id"], "error": error}))
            else:
                server.send(text)

        socket.on_message(receive)

    await visitor.page.route_web_socket("**/api/stream", connect)
    await visitor.page.goto(f"{desk.url}/s/{session}")
    await expect(visitor.page.locator(".notice")).to_have_text("Trying again: the screen is 5 bytes behind.")
    await visitor.take_lock()
    is_busy[0] = False
    await visitor.wait_for_text("\nshown\n")
    await expect(visitor.page.locator(".notice")).to_have_count(0)

    is_busy[0] = True
    await visitor.page.goto(f"{desk.url}/?view=wall")
    while not (await refused.get()).startswith("screen"):
        pass
    is_busy[0] = False
    await expect(visitor.page.locator(".tile .screen")).to_contain_text("shown")


async def test_phone_shows_the_line_of_the_cursor_and_keys_for_the_holder_of_the_lock(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "PS1='$ '")  # the names of the host and the folder may be longer than the line
    await desk.exec(session, "seq 100")
    alice = await visit(desk, session, width=360, height=740, touch=True)
    keys = alice.page.get_by_role("group", name="Keys")
    await alice.wait_for_text("\n100\n")
    await expect(alice.page.locator(".xterm-rows > div").last).to_be_in_viewport()
    await expect(keys).to_have_count(0)
    await alice.take_lock()
    await alice.type("sleep 1000\n")
    await expect(alice.card("sleep 1000")).to_contain_text("running")
    await keys.get_by_role("button", name="Ctrl-C").tap()
    await expect(alice.card("sleep 1000")).to_contain_text("cancelled (130)")


async def test_closed_session_says_so_in_five_tabs(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "echo last words")
    visitor = await visit(desk, session)
    pages = [visitor.page, *[await visitor.tab.context.new_page() for _ in range(4)]]
    for page in pages[1:]:
        await page.goto(visitor.page.url)
    for page in pages:
        await expect(page.locator(".lockbar")).to_contain_text("Nobody has the lock")
    await visitor.call("ptyctl_session", action="close", session_id=session)
    for page in pages:
        await expect(page.get_by_text("The session is closed.")).to_be_visible()
        await expect(page.get_by_role("article", name="echo last words")).to_contain_text("completed")


async def test_message_reaches_the_other_people_of_the_session(desk: Desk) -> None:
    session = await desk.open_shell()
    alice, bob = await visit(desk, session), await visit(desk, session, BOB)
    for visitor in (alice, bob):  # it gets messages from then on
        await visitor.expect_lock("Nobody has the lock")
    await alice.page.get_by_role("textbox", name="Message").fill("<i>look</i> at this")
    await alice.page.keyboard.press("Enter")
    for visitor in (alice, bob):
        await expect(visitor.page.locator(".messages li")).to_contain_text("alice: <i>look</i> at this")


async def test_two_windows_of_a_person_share_the_lock_and_one_of_them_uses_it(desk: Desk) -> None:
    session = await desk.open_shell()
    first = await visit(desk, session)
    await first.take_lock()
    second = Visitor(first.tab)
    second.page = await first.tab.context.new_page()
    await second.page.goto(first.page.url)
    await second.expect_lock("You have the lock in another window")
    await second.type("echo $((40 + 1))\n")
    await second.wait_for_text("\n41\n")
    await second.expect_lock("You have the lock.")
    await first.expect_lock("You have the lock in another window")
    await first.page.goto(desk.url)  # it leaves the lock to the other window
    await first.page.wait_for_selector("tbody tr")
    await second.type("echo $((40 + 2))\n")
    await second.wait_for_text("\n42\n")
    await second.expect_lock("You have the lock.")


@pytest.mark.parametrize("size", [{}, {"width": 900, "height": 700}], ids=["same-size", "smaller"])
async def test_window_of_another_browser_that_takes_over_the_terminal_sizes_it(desk: Desk, size: dict[str, int]) -> None:
    session = await desk.open_shell()
    first, second = await visit(desk, session), await visit(desk, session, **size)
    await first.take_lock()
    await second.expect_lock("You have the lock in another window")
    head = second.page.locator(".session-head small")
    await expect(head).not_to_contain_text("120×40")  # the window of the first one is larger
    first_size = (await head.inner_text()).split()[0]
    await second.type("echo $((40 + 1))\n")
    await first.expect_lock("You have the lock in another window")
    await expect(second.card("echo $((40 + 1))")).to_contain_text("completed")
    if size:
        await expect(head).not_to_contain_text(first_size)
    before = (await head.inner_text()).split()[0]
    await first.page.set_viewport_size({"width": 1000, "height": 600})
    await second.type("echo $((40 + 2))\n")
    await first.wait_for_text("\n42\n")
    await expect(head).to_contain_text(before)
    await second.page.set_viewport_size({"width": 700, "height": 500})
    await expect(head).not_to_contain_text(before)


async def test_person_sees_what_a_session_needs_and_closes_an_agents_terminal(desk: Desk) -> None:
    session = await desk.open_shell(acquire_lock=True, terminal={"mode": "interactive", "terminal_id": "term_build"})
    (await desk.ask(session)).cancel()
    tab = await desk.open_tab("/")
    row = tab.page.locator("tbody tr")
    await expect(row).to_contain_text("interactive terminal")
    await row.get_by_role("link", name="term_build").click()
    head = tab.page.locator(".session-head")
    await expect(head.locator("h1")).to_have_text("term_build")
    await expect(tab.page).to_have_title("term_build · Session · ptyctl")
    await expect(head.get_by_role("link", name="approval")).to_have_attribute("href", f"/approvals?session={session}")
    await head.get_by_role("link", name="Failed").click()
    await expect(tab.page.get_by_label("Session id")).to_have_value(session)
    await expect(tab.page.get_by_label("Only failed")).to_be_checked()
    await tab.page.go_back()
    await head.get_by_role("button", name="Close").click()
    await tab.page.get_by_role("button", name="Close the session").click()
    await expect(tab.page.get_by_text("The session is closed.")).to_be_visible()
    await expect(head.get_by_role("button", name="Close")).to_have_count(0)
    await tab.page.get_by_role("link", name="Sessions").click()
    await expect(tab.page.locator(".empty")).to_contain_text("No open sessions")


#: A browser without WebGL, and one whose WebGL fails once the terminal uses it.
_NO_WEBGL = "HTMLCanvasElement.prototype.getContext = function () { return null; }"
_BROKEN_WEBGL = """HTMLCanvasElement.prototype.getContext = function (kind, options) {
    return kind.startsWith("webgl") && options?.failIfMajorPerformanceCaveat ? {} : null;
}"""


@pytest.mark.parametrize("script", [_NO_WEBGL, _BROKEN_WEBGL], ids=["none", "broken"])
async def test_terminal_in_a_browser_without_webgl_is_drawn_and_typed_into(desk: Desk, script: str) -> None:
    session = await desk.open_shell()
    page = await desk.open("/audit")
    await page.add_init_script(script)
    await page.goto(f"{desk.url}/s/{session}")
    await page.get_by_role("button", name="Take the lock").click()
    await expect(page.locator(".lockbar")).to_contain_text("You have the lock.")
    await page.keyboard.type("echo $((6 * 7))\n")
    await expect(page.locator(".xterm-rows > div", has_text=re.compile("^42$"))).to_be_visible()


async def test_remaining_time_of_the_lock_is_that_of_the_daemons_clock(desk: Desk) -> None:
    session = await desk.open_shell(acquire_lock=True, lock_ttl_ms=600_000)
    page = await desk.open("/")
    await page.add_init_script("const now = Date.now; Date.now = () => now() + 86_400_000")
    left = re.compile(r"\b(10:00|[89]:\d\d) left")
    await page.goto(desk.url)
    await expect(page.locator("tbody tr")).to_contain_text(left)
    await page.goto(f"{desk.url}/s/{session}")
    await expect(page.locator(".lockbar")).to_contain_text(left)


@pytest.mark.parametrize("status", [None, 500])
async def test_card_whose_output_cannot_be_read_reports_it_and_reads_again(desk: Desk, status: int | None) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "echo all of it")
    visitor = await visit(desk, session)
    visitor.tab.expect_problem("ERR_|status of 500")

    async def fail(route: Route) -> None:
        await (route.fulfill(status=status, body="{}") if status else route.abort())

    await visitor.page.route("**/api/call/blocks_read", fail)
    await visitor.page.reload()
    card = visitor.card("echo all of it")
    await expect(card.get_by_role("alert")).to_contain_text("The output could not be read")
    await visitor.page.unroute("**/api/call/blocks_read")
    if status:
        await card.get_by_role("button", name="Try again").click()
    await expect(card.locator(".output")).to_have_text("all of it")
    await expect(card.get_by_role("alert")).to_have_count(0)


async def test_answer_that_arrives_after_its_view_was_left_opens_nothing(desk: Desk) -> None:
    page = await desk.open("/")
    answer: asyncio.Future[Route] = asyncio.get_running_loop().create_future()

    async def hold(route: Route) -> None:
        answer.set_result(route)

    await page.route("**/api/call/ptyctl_session", hold)
    await page.get_by_role("button", name="Open a shell").click()
    held = await answer
    await page.get_by_role("link", name="Audit").click()
    await expect(page.locator("h1")).to_contain_text("Audit")
    async with page.expect_response("**/api/call/ptyctl_session"):
        await held.continue_()
    await page.get_by_role("link", name="Search").click()
    await page.get_by_role("link", name="Sessions").click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page).to_have_url(f"{desk.url}/")

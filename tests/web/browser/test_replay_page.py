"""Replay: the terminal of the page shows exactly the screen of the server's model, at any place and after playing.

`make replay` compares 1,000 places of each recording, the build with 100 MB, and prints how long places take to open.
"""

from __future__ import annotations

import asyncio
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from fixtures.captures.store import Capture
from ptyctl.api.screen import PtyReadRaw, RawReply

from .desk import Desk
from .recordings import FLAGS, described, page_through_switch, print_build, print_capture, recorded_screens
from .visitor import Visitor

#: Size of the build log by places.
_BUILD_BYTES = 100_000
#: The cells of the terminal, once it has parsed what was written.
_SHOWN = """async (flags) => {
    const { terminalOf } = await import("/static/terminal.js");
    const terminal = terminalOf(document.querySelector(".term-box"));
    await new Promise((done) => terminal.write("", done));
    const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
    const indexed = (number) => (number < 8 ? names[number] : number < 16 ? `bright${names[number - 8]}` : `color${number}`);
    const colour = (isDefault, isRgb, value) =>
        isDefault ? "default" : isRgb ? `#${value.toString(16).padStart(6, "0")}` : indexed(value);
    const buffer = terminal.buffer.active;
    const rows = [];
    const runs = [];
    for (let row = 0; row < terminal.rows; row++) {
        const line = buffer.getLine(buffer.baseY + row);
        rows.push(line.translateToString().trimEnd());
        const found = [];
        for (let column = 0; column < terminal.cols; column++) {
            const cell = line.getCell(column);
            const set = [cell.isBold(), cell.isDim(), cell.isItalic(), cell.isUnderline(), cell.isBlink(), cell.isInverse(),
                cell.isInvisible(), cell.isStrikethrough()];
            const style = [colour(cell.isFgDefault(), cell.isFgRGB(), cell.getFgColor()),
                colour(cell.isBgDefault(), cell.isBgRGB(), cell.getBgColor()), ...flags.filter((_, index) => set[index])];
            if (style.join() === "default,default") continue;
            const last = found.at(-1);
            if (last?.[1] === column && last.slice(2).join() === style.join()) last[1]++;
            else found.push([column, column + 1, ...style]);
        }
        runs.push(found);
    }
    const cursor = [buffer.cursorY, Math.min(buffer.cursorX, terminal.cols - 1)];
    return { size: [terminal.cols, terminal.rows], cursor, rows, runs };
}"""
#: Moves the slider, and returns the duration in ms until the terminal shows the place.
SEEK = """async (place) => {
    const { terminalOf } = await import("/static/terminal.js");
    const begin = performance.now();
    const slider = document.querySelector("input[type=range]");
    slider.value = place;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    while (document.querySelector(".stage").ariaBusy === "true") await new Promise((done) => setTimeout(done));
    await new Promise((done) => terminalOf(document.querySelector(".term-box")).write("", done));
    await new Promise(requestAnimationFrame);
    return performance.now() - begin;
}"""


@pytest.mark.parametrize("name", ["vim", "htop", "switch", "build"])
async def test_replay_equals_the_recorded_screen_at_any_place(
    desk: Desk, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = request.config.getoption("--places")
    if name == "switch":
        session = await page_through_switch(desk.controller)
    elif name == "build":
        session = await print_build(desk.controller, tmp_path, count * _BUILD_BYTES)
    else:
        session = await print_capture(desk.controller, name)
    raw = await desk.controller.pty(PtyReadRaw(session_id=session, max_bytes=1))
    assert isinstance(raw, RawReply)
    chance = random.Random(name)
    places = chance.sample(range(1, raw.raw_size), min(count, raw.raw_size - 1))
    wanted = await recorded_screens(desk.controller, session, places)
    page = await desk.open(f"/s/{session}/at/{raw.raw_size}")
    slider = page.get_by_role("slider", name="Place in the output")
    await expect(slider).to_have_value(str(raw.raw_size))
    durations = []
    for place in places:
        durations.append(await page.evaluate(SEEK, place))
        assert await page.evaluate(_SHOWN, FLAGS) == described(wanted[place]), place
    await expect(page).to_have_url(f"{desk.url}/s/{session}/at/{places[-1]}")
    durations.sort()
    print(f"{name}: {count} places of {raw.raw_size} bytes, p50 {durations[count // 2]:.0f} ms, max {durations[-1]:.0f} ms")


async def test_replay_is_controlled_by_buttons_and_keys(desk: Desk) -> None:
    session = await desk.open_shell()
    replies = [await desk.exec(session, f"echo $(({number} * 7)); cd /") for number in (1, 2, 3)]
    tab = await desk.open_tab(f"/s/{session}/b/{replies[1].block_id}")
    blocks = (await Visitor(tab).call("blocks_since", session_id=session, last=3))["items"]
    page = tab.page
    slider = page.get_by_role("slider", name="Place in the output")

    # Links of the block to its first and its last screen.
    await page.get_by_role("link", name="Screen at its end").click()
    await expect(slider).to_have_value(str(blocks[1]["raw_end"]))
    await page.go_back()
    clicked = asyncio.Event()

    async def hold(route: Route) -> None:
        await clicked.wait()
        await route.continue_()

    await page.route("**/api/call/blocks_since", hold)
    await page.get_by_role("link", name="Screen at its start").click()
    await expect(slider).to_have_value(str(blocks[1]["raw_begin"]))

    # Step by command, also before the commands are known, and scrub.
    await page.set_viewport_size({"width": 360, "height": 740})
    await expect(page.get_by_role("button", name="Next command")).to_have_text("Next", use_inner_text=True)
    await page.get_by_role("button", name="Next command").click()
    clicked.set()
    await expect(slider).to_have_value(str(blocks[2]["raw_begin"]))
    await expect(page.locator(".place a")).to_have_text("echo $((3 * 7)); cd /")
    await page.get_by_role("button", name="Previous command").click()
    await expect(slider).to_have_value(str(blocks[1]["raw_begin"]))
    await page.keyboard.press("[")
    await expect(slider).to_have_value(str(blocks[0]["raw_begin"]))
    await slider.fill("1")
    await expect(page).to_have_url(f"{desk.url}/s/{session}/at/1")

    # A place that is chosen before the size of the recording is known remains.
    clicked.clear()
    await page.route("**/api/call/pty_read_raw", hold)
    await page.goto(f"{desk.url}/s/{session}/at/{blocks[1]['raw_end']}")
    await slider.fill("1")
    await expect(page).to_have_url(f"{desk.url}/s/{session}/at/1")
    async with page.expect_response("**/api/call/blocks_since"):
        clicked.set()
    await expect(slider).to_have_value("1")

    # Play before the size of the recording is known plays from the place of the address.
    clicked.clear()
    await page.goto(f"{desk.url}/s/{session}/at/{blocks[1]['raw_end']}")
    await page.get_by_role("button", name="Play").click()
    async with page.expect_request("**/recording?*") as played:
        clicked.set()
    assert f"from={blocks[1]['raw_end']}&" in (await played.value).url

    # Time: each event 10 s after the one before.
    begin = blocks[0]["raw_begin"]
    events = [{"ts": 10_000 * number, "offset": begin + number, "data_b64": "eA=="} for number in range(1, 9)]

    async def slow(route: Route) -> None:
        await route.fulfill(json={"events": events, "resume_offset": begin + 8, "complete": True})

    async def screen_at(route: Route) -> None:
        await route.fulfill(json=await (await route.fetch()).json() | {"ts": 0})

    await page.route("**/recording?*", slow)
    await page.route("**/screen?*", screen_at)
    await page.clock.install()
    await page.goto(f"{desk.url}/s/{session}/at/{begin}")
    await expect(page.locator(".stage")).to_have_attribute("aria-busy", "false")
    await page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    play = page.get_by_role("button", name="Play")

    async def expect_event(number: int, milliseconds: int) -> None:
        """Check that an event is played after this time, and not before."""
        await page.clock.run_for(milliseconds - 5)
        assert await slider.input_value() == str(begin + number - 1)
        while await slider.input_value() == str(begin + number - 1):
            await page.clock.run_for(1)
        assert await slider.input_value() == str(begin + number)

    async with page.expect_response("**/recording?*"):
        await play.click()
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await expect_event(1, 400)  # idle time is skipped
    await page.keyboard.press("k")
    await expect(play).to_be_visible()
    await page.clock.run_for(60_000)
    await expect(slider).to_have_value(str(begin + 1))
    await page.get_by_label("Speed").select_option("4")
    await page.locator("main h1").click()
    await page.keyboard.press("k")
    await expect_event(2, 100)
    await page.get_by_label("Skip idle time").uncheck()
    await expect_event(3, 100)  # this pause had begun
    await expect_event(4, 2_500)


async def test_transcript_that_is_removed_while_its_pages_are_open_is_reported(desk: Desk) -> None:
    session = await desk.open_shell()
    reply = await desk.exec(session, "echo {1..300}; seq 100")
    tab = await desk.open_tab(f"/s/{session}")
    tab.expect_problem("status of 404")
    replay, block = await tab.context.new_page(), await tab.context.new_page()
    await replay.goto(f"{desk.url}/s/{session}/at/1")
    await block.goto(f"{desk.url}/s/{session}/b/{reply.block_id}")
    await expect(block.locator(".output")).to_contain_text("100")
    await expect(replay.get_by_role("slider")).to_have_value("1")
    await Visitor(tab).call("ptyctl_session", action="close", session_id=session)
    await expect(tab.page.get_by_text("The session is closed.")).to_be_visible()
    await Visitor(tab).call("gc", max_age_days=0, max_bytes=1)
    await replay.get_by_role("slider").fill("100")
    await expect(replay.locator(".empty")).to_contain_text("There is no recording")
    await block.get_by_role("button", name="Terminal", exact=True).click()
    await expect(block.locator(".empty, .error").first).to_contain_text(re.compile("no session|not here"))
    await block.reload()
    await expect(block.locator(".empty")).to_contain_text("This block is not here")
    await tab.page.reload()
    await expect(tab.page.locator(".error")).to_contain_text("NOT_FOUND")


async def test_replay_whose_size_cannot_be_read_is_played_from_its_begin(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "echo text")
    tab = await desk.open_tab("/audit")
    tab.expect_problem("ERR_")
    page = tab.page
    await page.route("**/api/call/pty_read_raw", lambda route: route.abort())
    await page.goto(f"{desk.url}/s/{session}/at/5")
    await expect(page.locator(".error")).to_contain_text("The daemon does not answer")
    async with page.expect_request("**/recording?from=0&*"):
        await page.get_by_role("button", name="Play").click()
    await expect(page.locator(".error")).to_have_count(0)


async def test_playing_ends_at_the_recorded_screen(desk: Desk) -> None:
    session, size = await print_capture(desk.controller, "vim"), len(Capture.load("vim").raw)
    wanted = described((await recorded_screens(desk.controller, session, [size]))[size])
    tab = await desk.open_tab("/audit")
    tab.expect_problem("status of 409")
    page = tab.page
    error = {"error_code": "BUSY", "message": "the screen is 5 bytes behind", "details": {}, "retryable": True}
    is_behind = [True]

    async def screen(route: Route) -> None:
        await (route.fulfill(status=409, json={"error": error}) if is_behind[0] else route.continue_())

    await page.route("**/screen?*", screen)
    await page.goto(f"{desk.url}/s/{session}/at/{size // 3}")
    await expect(page.locator(".error")).to_contain_text("the screen is 5 bytes behind")
    await page.get_by_role("button", name="Play").click()
    is_behind[0] = False
    await expect(page.locator(".error")).to_have_count(0)
    await expect(page.get_by_role("slider", name="Place in the output")).to_have_value(str(size))
    assert await page.evaluate(_SHOWN, FLAGS) == wanted

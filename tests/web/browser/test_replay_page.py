"""Replay: the terminal of the page shows exactly the screen of the server's model, at any place and after playing.

`make replay` compares 1,000 places of each recording, the build with 100 MB, and prints how long places take to open.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from playwright.async_api import expect

from fixtures.captures.store import Capture
from ptyctl.api.screen import PtyReadRaw, RawReply

from .desk import Desk
from .recordings import FLAGS, described, page_through_switch, print_build, print_capture, recorded_screens

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


async def test_playing_ends_at_the_recorded_screen(desk: Desk) -> None:
    session, size = await print_capture(desk.controller, "vim"), len(Capture.load("vim").raw)
    wanted = described((await recorded_screens(desk.controller, session, [size]))[size])
    page = await desk.open(f"/s/{session}/at/{size // 3}")
    await page.get_by_role("button", name="Play").click()
    await expect(page.get_by_role("slider", name="Place in the output")).to_have_value(str(size))
    assert await page.evaluate(_SHOWN, FLAGS) == wanted

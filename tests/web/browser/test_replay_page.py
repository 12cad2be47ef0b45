"""Replay: the terminal of the page shows exactly the screen of the server's model, at any place and after playing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

import fixtures.captures

from .desk import Desk
from .visitor import Visitor

_CAPTURES = Path(fixtures.captures.__file__).parent
_PLACES = 10
#: Rows and cursor of the page's terminal.
_SCREEN = """async () => {
    const { terminalOf } = await import("/static/terminal.js");
    const terminal = terminalOf(document.querySelector(".term-box"));
    const buffer = terminal.buffer.active;
    const text = (_, row) => buffer.getLine(buffer.baseY + row).translateToString(true).trimEnd();
    const rows = Array.from({ length: terminal.rows }, text);
    return { rows, cursor: { row: buffer.cursorY, col: Math.min(buffer.cursorX, terminal.cols - 1) } };
}"""


async def _visit_capture(desk: Desk, name: str) -> tuple[Visitor, str, int]:
    """Let a session print a capture of a program, open its replay, and return the session and the size of its output."""
    visitor = Visitor(await desk.open_tab("/"))
    script = f"stty raw -echo; cat {_CAPTURES / name}.raw; sleep 1000"
    fields = {"protocol": "local", "command": ["sh", "-c", script], "pty": {"cols": 80, "rows": 24}}
    session = (await visitor.call("ptyctl_session", action="open", **fields))["session_id"]
    size = (_CAPTURES / f"{name}.raw").stat().st_size
    while (await visitor.call("pty_read_raw", session_id=session, max_bytes=1))["raw_size"] < size:
        await visitor.call("ptyctl_session_io", session_id=session, action="read", mode="screen", until_idle_ms=100)
    return visitor, session, size


async def _expect_screen(visitor: Visitor, session: str, at: int) -> None:
    """Wait until the page shows the screen of the server at an offset."""
    screen = await visitor.call("pty_read_screen", session_id=session, at=at)
    rows = [row.rstrip() for row in screen["rows"]]
    rows += [""] * (screen["rows_count"] - len(rows))
    wanted: Any = {"rows": rows, "cursor": screen["cursor"]}
    same = f"async wanted => JSON.stringify(await ({_SCREEN})()) === JSON.stringify(wanted)"
    await visitor.page.wait_for_function(same, arg=wanted)


@pytest.mark.parametrize("name", ["vim", "htop"])
async def test_replay_equals_the_recorded_screen_at_any_place(desk: Desk, name: str) -> None:
    visitor, session, size = await _visit_capture(desk, name)
    places = random.Random(name).sample(range(size), _PLACES)
    await visitor.page.goto(f"{desk.url}/s/{session}/at/{places[0]}")
    scrubber = visitor.page.get_by_role("slider", name="Place in the output")
    await expect(scrubber).to_have_attribute("max", str(size))
    for place in places:
        await scrubber.fill(str(place))
        await _expect_screen(visitor, session, place)
        await expect(visitor.page).to_have_url(f"{desk.url}/s/{session}/at/{place}")


async def test_playing_ends_at_the_recorded_screen(desk: Desk) -> None:
    visitor, session, size = await _visit_capture(desk, "vim")
    await visitor.page.goto(f"{desk.url}/s/{session}/at/{size // 3}")
    await visitor.page.get_by_role("button", name="Play").click()
    await _expect_screen(visitor, session, size)

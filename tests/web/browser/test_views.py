"""The views of the web console: what they show, at 360 px too, in both themes, and without accessibility violations."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, WebSocketRoute, expect

from fixtures.browser.axe import find_violations
from fixtures.browser.console_page import Theme

from .desk import Desk


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory with one device that nothing answers for."""
    path = tmp_path / "devices.toml"
    path.write_text(
        '[devices.core-1]\nhost = "127.0.0.1"\nport = 1\nprotocol = "telnet"\nplatform = "cisco_ios"\nusername = "ops"\n'
    )
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(path))
    return path


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_views_have_no_accessibility_violations_and_fit_a_phone(desk: Desk, theme: Theme) -> None:
    session = await desk.open_shell()
    reply = await desk.exec(session, "printf '\\033[31mred\\033[0m error\\n'; false")
    (await desk.ask(session)).cancel()
    block = f"/s/{session}/b/{reply.block_id}"
    page = await desk.open(theme=theme)
    found = {}
    for path, content in {
        "/": ".list .name",
        "/?view=wall": ".tile .screen",
        "/approvals": ".screen .typed",
        "/search?q=error": ".hits mark",
        "/devices": ".list .name",
        "/audit": ".list .badge",
        block: ".output",
        f"{block}?view=terminal": ".xterm-screen",
        f"/s/{session}": ".card .output span",
        f"/s/{session}?view=cards": ".card .output span",
        f"/s/{session}/at/0": ".xterm-screen",
    }.items():
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.goto(f"{desk.url}{path}")
        await page.wait_for_selector(content)
        found[path] = await find_violations(page)
        await page.set_viewport_size({"width": 360, "height": 740})
        if (width := await page.evaluate("document.documentElement.scrollWidth")) > 360:
            found[path].append(f"the page is {width} px wide")
    assert {path: problems for path, problems in found.items() if problems} == {}


async def test_empty_views_name_the_next_step(desk: Desk, inventory: Path) -> None:
    inventory.write_text("")
    page = await desk.open("/")
    for path, title, step in (
        ("/", "No open sessions", "ptyctl open"),
        ("/approvals", "No request waits", "ptyctl policy show"),
        ("/search", "Find what any session ran or printed", "What failed in the last day"),
        ("/search?q=nothing+has+this", "Nothing found", "fewer filters"),
        ("/devices", "The inventory is empty", "devices.toml"),
        ("/audit?event=reset", "No rows", "Clear the filters"),
    ):
        await page.goto(f"{desk.url}{path}")
        await expect(page.locator(".empty h2")).to_have_text(title)
        await expect(page.locator(".empty")).to_contain_text(step)


async def test_session_that_needs_a_person_is_first_and_filter_is_in_the_address(desk: Desk) -> None:
    asking, quiet = await desk.open_shell(), await desk.open_shell()
    await desk.exec(asking, 'read -p "Delete it? [y/n] " answer', timeout_ms=20_000)
    await desk.exec(quiet, "false")
    page = await desk.open("/")
    first, second = page.locator("tbody tr").nth(0), page.locator("tbody tr").nth(1)
    await expect(first).to_contain_text("asks a question")
    await expect(first).to_contain_text("Delete it?")
    await expect(second).to_contain_text("completed (1)")
    await page.keyboard.press("/")
    await page.keyboard.type("false")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.reload()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.get_by_role("link", name=f"shell {quiet[-4:]}").press("Enter")
    await expect(page).to_have_url(f"{desk.url}/s/{quiet}")
    await page.go_back()
    await expect(page.get_by_label("Filter")).to_have_value("false")


async def test_wall_follows_only_visible_screens(desk: Desk) -> None:
    session = await desk.open_shell()
    page = await desk.open("/?view=wall")
    await expect(page.locator(".tile .screen")).to_have_count(1)
    await desk.exec(session, "echo shown on the $((6 * 7))nd wall")
    await expect(page.locator(".tile .screen")).to_contain_text("shown on the 42nd wall")
    topics = await _serve_sessions(page, [_entry(number) for number in range(200)])
    await page.goto(f"{desk.url}/?view=wall")
    await expect(page.locator(".tile")).to_have_count(200)
    while await topics.get() != "screen:fake-0":
        pass
    assert topics.qsize() < 50
    await page.locator(".tile").last.scroll_into_view_if_needed()
    while await topics.get() != "screen:fake-199":
        pass


async def test_list_of_200_sessions_is_filtered_while_typing(desk: Desk) -> None:
    page = await desk.open("/audit")
    await _serve_sessions(page, [_entry(number) for number in range(200)])
    await page.goto(desk.url)
    await expect(page.locator("tbody tr")).to_have_count(200)
    await page.get_by_label("Filter").fill("core-17")
    await expect(page.locator("tbody tr")).to_have_count(11)
    await expect(page.locator("h1")).to_contain_text("11 of 200")


async def test_search_shows_matching_lines_and_opens_the_block(desk: Desk) -> None:
    session = await desk.open_shell()
    reply = await desk.exec(session, "printf 'one\\n<b>needle</b> 1\\nthree\\n'; false")
    await desk.exec(session, "echo other")
    page = await desk.open("/search")
    await page.get_by_label("Search for").fill(r"needle\S+ \d")
    await page.get_by_label("Regular expression").check()
    await page.get_by_label("Only failed").check()
    await page.keyboard.press("Enter")
    await expect(page.locator(".hits")).to_have_count(1)
    await expect(page.locator(".hits")).to_contain_text("<b>needle</b> 1")
    await page.locator(".hits a.cmd").click()
    await expect(page).to_have_url(f"{desk.url}/s/{session}/b/{reply.block_id}")


async def test_command_that_a_device_refused_is_a_device_error_in_all_views(desk: Desk) -> None:
    device = "while printf 'FGT60F # '; read -r line; do [ $line = get ] || echo 'Unknown action 0'; done"
    session = await desk.open_session(protocol="local", platform="fortinet_fortios", command=("sh", "-c", device))
    await desk.exec(session, "get")
    reply = await desk.exec(session, "gte")
    page = await desk.open("/")
    await expect(page.locator("tbody tr .badge.bad")).to_have_text("device error")
    await page.goto(f"{desk.url}/s/{session}?view=cards")
    await expect(page.locator(".card.good")).to_have_attribute("aria-label", "get")
    await expect(page.locator(".card.bad header")).to_contain_text(re.compile("gte.*device error.*Unknown action 0", re.DOTALL))
    await page.goto(f"{desk.url}/s/{session}/b/{reply.block_id}")
    await expect(page.locator(".facts")).to_contain_text(re.compile("device error.*Unknown action 0", re.DOTALL))
    await page.goto(f"{desk.url}/search?failed=on")
    await expect(page.locator(".hits header")).to_contain_text(re.compile("gte.*device error", re.DOTALL))


async def test_devices_view_reports_why_a_device_cannot_be_opened(desk: Desk) -> None:
    tab = await desk.open_tab("/devices")
    tab.expect_problem("status of")
    row = tab.page.locator("tbody tr").first
    await expect(row).to_contain_text("telnet 127.0.0.1:1")
    await row.get_by_role("button", name="Open").click()
    await expect(tab.page.locator(".toast.bad")).to_contain_text("127.0.0.1")
    await expect(tab.page.locator(".checks .bad").first).to_be_visible()


async def test_markup_in_device_name_is_text(desk: Desk, inventory: Path) -> None:
    name = "<img/src=x/onerror=window.hacked=1>"
    inventory.write_text(f'[devices.\'{name}\']\nhost = "127.0.0.1"\nport = 1\nprotocol = "telnet"\n')
    page = await desk.open("/devices")
    await expect(page.locator("tbody tr").first).to_contain_text(name)
    assert await page.locator("img").count() == 0
    assert await page.evaluate("window.hacked") is None


async def test_audit_view_filters_rows_and_verifies_the_log(desk: Desk) -> None:
    session = await desk.open_shell()
    await desk.exec(session, "echo recorded")
    page = await desk.open("/audit")
    await page.get_by_label("Event").fill("text")
    await page.get_by_role("button", name="Filter").click()
    await expect(page).to_have_url(f"{desk.url}/audit?event=text")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator("tbody tr")).to_contain_text("echo recorded")
    await expect(page.locator("tbody tr")).to_contain_text("ada/mcp")
    await page.get_by_role("button", name="Verify the log").click()
    await expect(page.locator("[role=status]")).to_contain_text("rows fit")
    await page.get_by_role("link", name=f"shell {session[-4:]}").click()
    await expect(page).to_have_url(f"{desk.url}/s/{session}")


def _entry(number: int) -> dict[str, Any]:
    """An entry of the list of sessions."""
    return {
        "session_id": f"fake-{number}",
        "protocol": "ssh",
        "host": f"192.0.2.{number}",
        "device": f"core-{number}",
        "state": "open",
        "mode": "idle",
        "observers": 0,
        "last_activity_at": 1_700_000_000_000 - number * 60_000,
    }


async def _serve_sessions(page: Page, entries: list[dict[str, Any]]) -> asyncio.Queue[str]:
    """Answer the page's stream with these sessions; return a queue of the topics that it subscribes to."""
    topics: asyncio.Queue[str] = asyncio.Queue()

    async def serve(socket: WebSocketRoute) -> None:
        def receive(text: str | bytes) -> None:
            message = json.loads(text)
            if message["op"] == "subscribe":
                topics.put_nowait(message["topic"])
                if message["topic"] == "sessions":
                    socket.send(
                        json.dumps({"op": "sessions", "id": message["id"], "sessions": entries, "removed": [], "full": True})
                    )

        socket.on_message(receive)

    await page.route_web_socket("**/api/stream", serve)
    return topics

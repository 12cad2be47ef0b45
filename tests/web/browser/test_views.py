"""The views of the web console: what they show, at 360 px too, in both themes, and without accessibility violations."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route, WebSocketRoute, expect

from fixtures.browser.axe import find_violations
from fixtures.browser.console_page import WAIT_MS, Theme
from ptyctl.api import SessionRequest
from ptyctl.simulator import SimulatedSwitch

from .desk import ASKED, Desk, navigate
from .visitor import Visitor


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory with one device that nothing answers for."""
    path = tmp_path / "devices.toml"
    path.write_text(
        '[devices.core-1]\nhost = "127.0.0.1"\nport = 1\nprotocol = "telnet"\nplatform = "cisco_ios"\nusername = "ops"\n'
    )
    monkeypatch.setenv("PTYCTL_DEVICES_FILE", str(path))
    monkeypatch.setenv("CORE_PASSWORD", "secret")
    return path


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_views_have_no_accessibility_violations_and_fit_a_phone(desk: Desk, theme: Theme) -> None:
    session = await desk.open_shell()
    reply = await desk.exec(session, "printf '\\033[31mred\\033[0m error\\n'; false")
    (await desk.ask(session)).cancel()
    block = f"/s/{session}/b/{reply.block_id}"
    tab = await desk.open_tab(theme=theme)
    tab.expect_problem("status of 4(01|03|04|09)")  # after signing out, DECLINED, NOT_FOUND, APPROVAL_PENDING
    page = tab.page
    found = {}

    async def check(name: str) -> None:
        """Check the page, and leave it narrow. The themes differ only in colours."""
        await page.set_viewport_size({"width": 1280, "height": 800})
        found[name] = await find_violations(page, colours=theme == "dark")
        await page.set_viewport_size({"width": 360, "height": 740})
        if (width := await page.evaluate("document.documentElement.scrollWidth")) > 360:
            found[name].append(f"the page is {width} px wide")

    async def press(name: str) -> None:
        await page.get_by_role("button", name=name).click()

    for path, content in {
        "/": ".list .name",
        "/?view=wall": ".tile .screen",
        "/search?q=error": ".hits mark",
        block: ".output",
        f"{block}?view=terminal": ".xterm-screen",
        "/search": ".empty",
        "/s/unknown/b/1_1": ".empty",
        f"/s/{session}/at/0": ".xterm-screen",
        f"/s/{session}?view=cards": ".card .output span",
        "/approvals": ".screen .typed",
        "/devices": ".list .name",
        "/audit": ".list .badge",
        f"/s/{session}": ".card .output span",
    }.items():
        await navigate(page, path)
        await page.wait_for_selector(content)
        await check(path)
        match path:
            case "/approvals":
                await press("Edit")
                await check("an edited request")
            case "/devices":
                await press("Doctor")
                await press("Recent")
                await page.wait_for_selector(".checks .bad")
                await check("a device with checks and sessions")
            case "/audit":
                await press("Verify the log")
                await page.wait_for_selector(".panel[role=status]")
                await check("a verified log")
    visitor = Visitor(tab)
    await visitor.take_lock()
    await visitor.type(f"{ASKED}\n")
    await page.wait_for_selector(".held-lines")
    await press("Type commands here")
    await page.keyboard.press("Control+Shift+F")
    await page.wait_for_selector(".find")
    await check("a session in use")
    await press("Close …")
    await page.get_by_role("dialog").wait_for()
    await check("dialog")
    await press("Cancel")
    await press("Sign out")
    await press("Give back and sign out")
    await page.get_by_label("Token").wait_for()
    await check("login")
    assert {view: problems for view, problems in found.items() if problems} == {}


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
        await navigate(page, path)
        await expect(page.locator(".empty h2")).to_have_text(title)
        await expect(page.locator(".empty")).to_contain_text(step)
    inventory.unlink()
    session = await desk.open_shell()
    tab = await desk.open_tab("/")
    tab.expect_problem("status of 404")
    await navigate(tab.page, "/devices")
    await expect(tab.page.locator(".empty h2")).to_have_text("The inventory is empty")
    await navigate(tab.page, f"/search?session={session}&failed=on")
    await expect(tab.page.locator(".empty")).to_contain_text("Nothing failed")
    await tab.page.get_by_role("link", name="Back to the session").click()
    await expect(tab.page).to_have_title(f"shell {session[-4:]} · Session · ptyctl")


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


async def test_list_begins_with_the_most_urgent_sessions_and_shows_viewers_and_locks(desk: Desk) -> None:
    now = int(time.time() * 1000)
    held = {"lock_holder": "night", "lock_principal": "ada", "lock_expires_at": now + 600_000}
    special: dict[str, dict[str, Any]] = {
        "busy": {"last_activity_at": now},
        "idle": {**held, "last_activity_at": now - 600_000},
        "full": {"alarm": "no space"},
        "lost": {"state": "lost"},
        "asks": {"waiting_for_input": True},
        "held": {"pending_approvals": 2},
        "used": {**held, "mode": "block_running", "observers": 3},
    }
    page = await desk.open("/audit")
    await _serve_sessions(page, [_entry(number) | {"device": name} | special[name] for number, name in enumerate(special)])
    await page.goto(desk.url)
    await expect(page.locator("tbody a.name")).to_have_text(["held", "asks", "lost", "full", "idle", "busy", "used"])
    for name, badge in {
        "held": "2 approvals",
        "asks": "asks a question",
        "lost": "connection lost",
        "full": "not recorded: no space",
        "idle": "idle lock",
    }.items():
        await expect(page.locator("tr.needy", has=page.get_by_role("link", name=name))).to_contain_text(badge)
    used = page.locator("tbody tr").last
    await expect(used.locator("td").nth(2)).to_contain_text(re.compile(r"ada\s+(10:00|9:\d\d) left"))
    await expect(used.locator("td").nth(3)).to_contain_text("3")
    await page.set_viewport_size({"width": 360, "height": 740})
    await expect(used).to_contain_text(re.compile(r"lock ada\s.* left\s+viewers 3", re.DOTALL), use_inner_text=True)


async def test_lost_network_is_reported_and_the_list_continues_after_it(desk: Desk) -> None:
    tab = await desk.open_tab("/audit")
    tab.expect_problem("ERR_|WebSocket")
    page, sockets, attempts, is_lost = tab.page, list[WebSocketRoute](), asyncio.Queue[None](), [False]

    async def connect(socket: WebSocketRoute) -> None:
        if is_lost[0]:
            attempts.put_nowait(None)
            await socket.close(code=1011)  # as a proxy that accepts connections
        else:
            socket.connect_to_server()
            sockets.append(socket)

    async def fetch(route: Route) -> None:
        await (route.abort() if is_lost[0] else route.continue_())

    await page.route_web_socket("**/api/stream", connect)
    await page.route("**/api/**", fetch)
    await page.goto(desk.url)
    await expect(page.locator(".empty")).to_contain_text("No open sessions")
    is_lost[0] = True
    await sockets[0].close(code=1011)
    await expect(page.locator(".offline")).to_contain_text("The connection to the daemon is lost")
    await page.get_by_role("button", name="Open a shell").click()
    await expect(page.locator(".toast.bad")).to_contain_text("The daemon does not answer")
    await page.get_by_role("link", name="Search").click()
    await page.get_by_label("Search for").fill("text")
    await page.keyboard.press("Enter")
    await expect(page.locator("main .error")).to_contain_text("Next step: check the network")
    await page.get_by_role("link", name="Sessions").click()
    await asyncio.wait_for(attempts.get(), WAIT_MS / 1000)  # of the view's subscription
    session = await desk.open_shell()
    for _ in range(2):  # an attempt by the timer ends before it connects: it asks for the login first
        await page.get_by_role("button", name="Try now").click()
        await asyncio.wait_for(attempts.get(), WAIT_MS / 1000)
    is_lost[0] = False  # the timer's next attempt succeeds
    await expect(page.locator(".offline")).to_have_count(0)
    await expect(page.locator("tbody a.name")).to_have_text(f"shell {session[-4:]}")


async def test_error_of_a_view_names_the_next_step(desk: Desk, inventory: Path) -> None:
    inventory.write_text("[devices.core-1]\nport = 0\n")
    tab = await desk.open_tab("/approvals")
    tab.expect_problem("status of 4")
    await navigate(tab.page, "/devices")
    await expect(tab.page.locator(".error")).to_contain_text("devices.core-1.port")
    await expect(tab.page.locator(".error")).to_contain_text(re.compile("Next step: .*INVALID_ARGUMENT", re.DOTALL))
    await navigate(tab.page, "/search?q=(&regex=on")
    await expect(tab.page.locator(".error")).to_contain_text("INVALID_ARGUMENT")
    for path, title in {"b/1_1": "This block is not here", "at/0": "There is no recording", "": "no session"}.items():
        await navigate(tab.page, f"/s/unknown/{path}")
        await expect(tab.page.locator(".empty, .error").first).to_contain_text(title)


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


async def test_list_shows_the_nodes_of_a_fleet_and_what_is_degraded(desk: Desk) -> None:
    page = await desk.open("/audit")
    away = {**_entry(1), "node": "jump1", "unreachable_s": 60}
    await _serve_sessions(page, [_entry(0), away], notices=["node jump1 has not announced itself since 12:00"])
    await page.goto(desk.url)
    await expect(page.get_by_role("status").filter(has_text="jump1")).to_contain_text("since 12:00")
    row = page.locator("tbody tr").first
    await expect(row).to_contain_text("on node jump1")
    await expect(row.locator(".badge.bad")).to_have_text("node not reachable")


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
    await navigate(page, f"/s/{session}?view=cards")
    await expect(page.locator(".card.good")).to_have_attribute("aria-label", "get")
    await expect(page.locator(".card.bad header")).to_contain_text(re.compile("gte.*device error.*Unknown action 0", re.DOTALL))
    await navigate(page, f"/s/{session}/b/{reply.block_id}")
    await expect(page.locator(".facts")).to_contain_text(re.compile("device error.*Unknown action 0", re.DOTALL))
    await navigate(page, "/search?failed=on")
    await expect(page.locator(".hits header")).to_contain_text(re.compile("gte.*device error", re.DOTALL))


async def test_devices_view_reports_why_a_device_cannot_be_opened(desk: Desk) -> None:
    tab = await desk.open_tab("/devices")
    tab.expect_problem("status of")
    row = tab.page.locator("tbody tr").first
    await expect(row).to_contain_text("telnet 127.0.0.1:1")
    await row.get_by_role("button", name="Open").click()
    await expect(tab.page.locator(".toast.bad")).to_contain_text("127.0.0.1")
    await expect(tab.page.locator(".checks .bad").first).to_be_visible()


async def test_device_is_opened_from_the_page_and_has_recent_sessions(desk: Desk, inventory: Path) -> None:
    async with SimulatedSwitch(password="secret", enable_secret="secret") as switch:
        inventory.write_text(
            f'[devices.core-1]\nhost = "127.0.0.1"\nport = {switch.telnet_port}\nprotocol = "telnet"\nplatform = "cisco_ios"\n'
            'username = "admin"\npassword = "env:CORE_PASSWORD"\n'
        )
        page = await desk.open("/devices")
        await page.get_by_role("button", name="Open").click()
        await expect(page.locator(".session-head h1")).to_have_text("core-1")
        session = page.url.rpartition("/")[2]
        await page.get_by_role("link", name="Devices").click()
        row = page.locator("tbody tr").first
        await expect(row.locator(f'a[href="/s/{session}"]')).to_have_text("open")
        reply = await desk.exec(session, "show version")
        await row.get_by_role("button", name="Recent").click()
        recent = page.locator("tr.more li")
        await expect(recent).to_contain_text(re.compile(f"{session}, last command\\s+show version"))
        await row.get_by_role("button", name="Doctor").click()
        await expect(page.locator(".checks .good").last).to_be_visible()
        await recent.get_by_role("link").first.click()
        await expect(page).to_have_url(f"{desk.url}/s/{session}")
        await desk.controller.session(SessionRequest(action="close", session_id=session, force=True))
        await expect(page.locator(".notice")).to_contain_text("The session is closed")
        await navigate(page, f"/s/{session}/b/{reply.block_id}")
        await expect(page.get_by_role("link", name="← core-1")).to_have_attribute("href", f"/s/{session}")


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
    await page.get_by_role("link", name=f"session {session[-4:]}").click()
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


async def _serve_sessions(page: Page, entries: list[dict[str, Any]], **common: Any) -> asyncio.Queue[str]:
    """Answer the page's stream with these sessions; return a queue of the topics that it subscribes to."""
    topics: asyncio.Queue[str] = asyncio.Queue()

    async def serve(socket: WebSocketRoute) -> None:
        def receive(text: str | bytes) -> None:
            message = json.loads(text)
            if message["op"] == "subscribe":
                topics.put_nowait(message["topic"])
                if message["topic"] == "sessions":
                    fields = {"sessions": entries, "removed": [], "full": True, **common}
                    socket.send(json.dumps({"op": "sessions", "id": message["id"], **fields}))

        socket.on_message(receive)

    await page.route_web_socket("**/api/stream", serve)
    return topics

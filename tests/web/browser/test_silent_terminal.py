"""Input while the terminal's own server is silent and the connection to the daemon is not, as its veil says."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from playwright.async_api import Locator, WebSocketRoute, expect

from .desk import Desk
from .visitor import Visitor


class _Stream:
    """The stream of a page, whose messages of terminals can be dropped."""

    def __init__(self) -> None:
        self.is_silent = False
        self._terminals: set[int] = set()

    def route(self, page_side: WebSocketRoute) -> None:
        server_side = page_side.connect_to_server()

        def to_server(message: str | bytes) -> None:
            sent = json.loads(message)
            if sent["op"] == "subscribe" and sent["topic"].startswith("terminal:"):
                self._terminals.add(sent["id"])
            server_side.send(message)

        def to_page(message: str | bytes) -> None:
            number = int.from_bytes(message[:4]) if isinstance(message, bytes) else json.loads(message).get("id")
            if not (self.is_silent and number in self._terminals):
                page_side.send(message)

        page_side.on_message(to_server)
        server_side.on_message(to_page)


@asynccontextmanager
async def _visit(desk: Desk, folder: Path, *, is_silent: bool = False) -> AsyncIterator[tuple[Visitor, _Stream]]:
    """Open a page of a new shell, whose commands run in an empty folder."""
    folder.mkdir()
    session = await desk.open_shell(cwd=str(folder))
    await desk.exec(session, "true")
    visitor, stream = Visitor(await desk.open_tab("/")), _Stream()
    stream.is_silent = is_silent
    await visitor.page.route_web_socket("**/api/stream", stream.route)
    await visitor.page.goto(f"{desk.url}/s/{session}")
    yield visitor, stream


def _question(visitor: Visitor) -> Locator:
    return visitor.page.locator(".unsent")


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_keys_under_the_veil_are_kept_although_the_daemon_answers(desk: Desk, tmp_path: Path) -> None:
    async with _visit(desk, tmp_path / "work") as (alice, stream):
        await alice.take_lock()
        stream.is_silent = True
        await expect(alice.page.locator(".veil")).to_contain_text("what you type is not sent")
        await expect(alice.page.locator(".offline")).to_have_count(0)
        await alice.type("touch veiled\n")
        await expect(_question(alice)).to_contain_text("13 keys were not sent")
        await alice.page.get_by_role("button", name="Type commands here").click()
        field = alice.page.get_by_role("textbox", name="Command", exact=True)
        await field.fill("touch composed")
        await field.press("Enter")
        await alice.expect_lock("Nothing was typed: the daemon does not answer.")
        stream.is_silent = False
        await expect(alice.page.locator(".veil")).to_have_count(0)
        await _question(alice).get_by_role("button", name="Discard").click()
        await alice.type("touch seen\n")
        await alice.wait_for_text("touch seen\n")
        await expect(alice.card("touch seen")).to_contain_text("completed")
        assert _files(tmp_path / "work") == ["seen"]


async def test_keys_before_the_first_message_of_the_terminal_wait_for_it(desk: Desk, tmp_path: Path) -> None:
    async with _visit(desk, tmp_path / "work", is_silent=True) as (alice, stream):
        await expect(alice.lock_bar).to_contain_text("Loading")
        await alice.take_lock()
        await alice.type("touch blind\n")
        await expect(_question(alice)).to_contain_text("12 keys were not sent")
        stream.is_silent = False
        await _question(alice).get_by_role("button", name="Send").click()
        await expect(alice.card("touch blind")).to_contain_text("completed")


async def test_ctrl_c_after_a_silence_is_sent_at_once_and_discards_the_keys_before_it(desk: Desk, tmp_path: Path) -> None:
    async with _visit(desk, tmp_path / "work") as (alice, stream):
        await alice.take_lock()
        await alice.type("sleep 1000\n")
        await alice.wait_for_text("sleep 1000\n")
        stream.is_silent = True
        await expect(alice.page.locator(".veil")).to_be_visible()
        await alice.type("touch old\n")
        await expect(_question(alice)).to_contain_text("10 keys were not sent")
        stream.is_silent = False
        await expect(alice.page.locator(".veil")).to_have_count(0)
        await alice.page.keyboard.press("Control+C")
        await expect(_question(alice)).to_have_count(0)
        await expect(alice.card("sleep 1000")).to_contain_text("(130)")
        await alice.type("touch new\n")
        await expect(alice.card("touch new")).to_contain_text("completed")
        assert _files(tmp_path / "work") == ["new"]


async def test_call_whose_reply_is_cut_after_its_headers_ends(desk: Desk) -> None:
    page = await desk.open("/")
    outcomes = await page.evaluate("""async () => {
        const api = await import("/static/api.js");
        const replies = [];
        window.fetch = async (path, { signal }) => {
            const cut = (reply) => signal.addEventListener("abort", () => reply.error(signal.reason));
            return new Response(new ReadableStream({ start(reply) { cut(reply); replies.shift()?.(reply); } }));
        };
        const code = (call) => call.then(() => "answered", (error) => error.error_code ?? error.name);
        const lost = () => new Promise((begun) => replies.push((reply) => begun(reply)));
        const limited = await code(api.me(50));
        const begun = lost();
        const open = code(api.call("devices"));
        await begun;
        api.openCalls()();
        const broken = lost();
        const failed = code(api.get("/api/me"));
        (await broken).error(new TypeError("network error"));
        return [limited, await open, await failed];
    }""")
    assert outcomes == ["OFFLINE", "OFFLINE", "OFFLINE"]


@pytest.mark.parametrize("step_s", [6, -6])
async def test_answer_after_the_clock_of_the_daemon_was_set_is_in_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, step_s: int
) -> None:
    session = await desk.open_shell()
    page = await desk.open(f"/s/{session}")
    now, clock = time.time, SimpleNamespace(time=lambda: now() + step_s)
    for module in ("ptyctl.web.calls", "ptyctl.web.stream.endpoint"):
        monkeypatch.setattr(f"{module}.time", clock)
    await page.evaluate("async () => { window.api = await import('/static/api.js'); }")
    await page.wait_for_function("step => Math.abs(api.daemonClock() - Date.now() - step) < 2000", arg=1000 * step_s)
    await page.get_by_role("textbox", name="Message").fill("hello")
    await page.keyboard.press("Enter")
    await expect(page.locator(".messages li")).to_contain_text("alice: hello")

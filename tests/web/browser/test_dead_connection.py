"""The page of a session whose daemon cannot be heard: packets are swallowed, or the daemon is stopped.

The page shows nothing as current, and no key that was typed then runs later.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Route, expect

from fixtures.browser.console_page import open_tab
from fixtures.daemons import daemon_pid
from fixtures.tcp_proxy import TcpProxy, tcp_proxy
from ptyctl.daemon.control import WEB, BlockingClient
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.controller.test_refused_lines import POLICY

from .desk import ASKED, navigate
from .visitor import Visitor

#: Longer than the time after which the page is stale, and than that for which keys are sent.
_SHORT_TTL_MS = 9_000

#: A prompt with the folder may wrap the lines that the tests look for.
_SHORT_PROMPT = "PS1='$ '"


class Line:
    """A visitor whose way to the daemon can be cut, or whose daemon can be stopped."""

    def __init__(self, visitor: Visitor, proxy: TcpProxy, pid: int, how: str, folder: Path, path: str) -> None:
        self.visitor, self.folder, self.path = visitor, folder, path
        self.page = visitor.page
        self._proxy, self._pid, self._how = proxy, pid, how
        self._runs = 0

    def cut(self) -> None:
        if self._how == "stopped":
            os.kill(self._pid, signal.SIGSTOP)
        else:
            self._proxy.cut()

    def heal(self) -> None:
        """Let everything through again; `lost`: the connections so far are lost."""
        if self._how == "stopped":
            os.kill(self._pid, signal.SIGCONT)
        else:
            if self._how == "lost":
                self._proxy.reset()
            self._proxy.heal()

    @property
    def veil(self) -> Locator:
        return self.page.locator(".veil")

    @property
    def question(self) -> Locator:
        return self.page.locator(".unsent")

    async def run(self, command: str) -> None:
        """Run a command to its end by keys of the holder of the lock."""
        self._runs += 1
        await self.visitor.type(f"{command}; echo $((40 + {self._runs}))\n")
        await self.visitor.wait_for_text(f"\n{40 + self._runs}\n")

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@asynccontextmanager
async def _line(
    runtime_dir: RuntimeDir, browser: Browser, folder: Path, how: str, path: str = "", lock_ttl_ms: int | None = None
) -> AsyncIterator[Line]:
    """Open the page of a new shell, whose commands run in an empty folder, through a proxy. `lock_ttl_ms`: not the page's."""

    def begin() -> Any:
        with BlockingClient(runtime_dir) as daemon:
            return daemon.call(WEB, {"listen": "127.0.0.1:0"})

    opened = await asyncio.to_thread(begin)
    pid = daemon_pid(runtime_dir)
    assert pid is not None
    folder.mkdir()
    async with tcp_proxy(int(opened["url"].rpartition(":")[2])) as proxy, open_tab(browser) as tab:
        visitor = Visitor(tab)
        tab.expect_problem("ERR_|WebSocket connection|status of (4|503)")
        url = f"http://127.0.0.1:{proxy.port}"
        if lock_ttl_ms is not None:
            await visitor.set_constant("lock.js", "TTL_MS", lock_ttl_ms)
        try:
            await tab.page.goto(f"{url}/#ticket={opened['ticket']}")
            await expect(tab.page.get_by_role("heading", level=1)).to_be_visible()
            command = ["bash", "--norc", "--noprofile"]
            session = await visitor.call("ptyctl_session", action="open", protocol="local", command=command, cwd=str(folder))
            await visitor.call("ptyctl_session_exec", session_id=session["session_id"], task_id="web", cmd=_SHORT_PROMPT)
            line = Line(visitor, proxy, pid, how, folder, f"/s/{session['session_id']}")
            await tab.page.goto(f"{url}{path or line.path}")
            await expect(tab.page.get_by_role("heading", level=1)).to_be_visible()  # calls need the login, which is read first
            yield line
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            proxy.heal()


_EACH_WAY = pytest.mark.parametrize("how", ["swallowed", "lost", "stopped"])


@_EACH_WAY
async def test_page_that_hears_nothing_is_veiled_its_lock_ends_and_its_keys_never_run(
    runtime_dir: RuntimeDir, browser: Browser, tmp_path: Path, how: str
) -> None:
    async with _line(runtime_dir, browser, tmp_path / "work", how, lock_ttl_ms=_SHORT_TTL_MS) as line:
        visitor = line.visitor
        await visitor.take_lock()
        await line.run("touch before")
        line.cut()
        await visitor.type("touch early\n")
        await expect(line.veil).to_contain_text("No answer from the daemon")
        await expect(line.page.locator(".offline")).to_be_visible()
        await expect(visitor.lock_bar).not_to_contain_text("You have the lock")
        await visitor.page.keyboard.type("touch later\n")
        await expect(line.question).to_contain_text("keys were not sent")
        await visitor.expect_lock("Who has the lock is not known")  # at its end, although nothing has arrived
        await visitor.page.keyboard.type("touch last\n")
        await visitor.expect_lock("Nothing was typed")
        line.heal()
        await expect(line.veil).to_have_count(0)
        await expect(line.page.locator(".offline")).to_have_count(0)
        await visitor.expect_lock("Nobody has the lock")
        await expect(line.question.get_by_role("button", name="Send")).to_be_enabled()
        await line.question.get_by_role("button", name="Show").click()
        await expect(line.question.locator("code")).to_contain_text("later")
        await line.question.get_by_role("button", name="Discard").click()
        await expect(line.question).to_have_count(0)
        await visitor.take_lock()
        await line.run("touch after")
        assert line.files() == ["after", "before"]
        assert "touch early" not in await visitor.text()


@pytest.mark.parametrize("how", ["swallowed", "stopped"])
async def test_keys_that_were_not_sent_are_sent_on_request(
    runtime_dir: RuntimeDir, browser: Browser, tmp_path: Path, how: str
) -> None:
    async with _line(runtime_dir, browser, tmp_path / "work", how) as line:
        await line.visitor.take_lock()
        await line.run("true")
        line.cut()
        await line.page.keyboard.type("touch kept\n")
        await expect(line.question).to_contain_text("keys were not sent")
        line.heal()
        await expect(line.question).to_contain_text("11 keys were not sent")  # the first one, too, was refused
        await line.visitor.expect_lock("You have the lock.")
        await line.question.get_by_role("button", name="Send").click()
        await line.visitor.wait_for_text("touch kept\n")
        await line.page.keyboard.type("echo $((50 + 7))\n")
        await line.visitor.wait_for_text("\n57\n")
        assert line.files() == ["kept"]


async def test_key_whose_answer_was_lost_is_reported_and_the_keys_after_it_are_not_sent(
    runtime_dir: RuntimeDir, browser: Browser, tmp_path: Path
) -> None:
    async with _line(runtime_dir, browser, tmp_path / "work", "lost") as line:
        await line.visitor.take_lock()
        await line.run("true")
        written: asyncio.Future[Route] = asyncio.get_running_loop().create_future()
        await line.page.route("**/api/call/ptyctl_session_io", lambda route: written.set_result(route), times=1)
        await line.page.keyboard.type("touch kept\n")
        await expect(line.question).to_contain_text("10 keys were not sent")
        await (await written).abort("connectionreset")
        await expect(line.question).to_contain_text("look at the terminal whether they were typed")
        await expect(line.question).to_contain_text("10 keys were not sent")
        await line.visitor.expect_lock("You have the lock.")
        await line.question.get_by_role("button", name="Discard").click()
        await line.run("touch after")
        assert line.files() == ["after"]


async def test_lock_that_another_view_shows_ends_in_its_time_while_the_daemon_is_silent(
    runtime_dir: RuntimeDir, browser: Browser, tmp_path: Path
) -> None:
    async with _line(runtime_dir, browser, tmp_path / "work", "stopped", lock_ttl_ms=_SHORT_TTL_MS) as line:
        await line.visitor.take_lock()
        await navigate(line.page, "/audit")
        held = line.page.locator(".held-lock")
        await expect(held).to_contain_text("You have the lock of")
        line.cut()
        await expect(held).to_have_count(0)
        line.heal()
        await expect(line.page.locator(".offline")).to_have_count(0)
        await navigate(line.page, line.path)
        await line.visitor.expect_lock("Nobody has the lock")


async def test_refused_line_of_here_document_holds_what_is_typed_while_the_daemon_is_silent(
    runtime_dir: RuntimeDir, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.setenv("PTYCTL_POLICY", str(tmp_path / "policy.toml"))
    async with _line(runtime_dir, browser, tmp_path / "work", "stopped") as line:
        notice = line.page.locator(".notice.refused")
        await line.visitor.take_lock()
        await line.run("true")
        await line.visitor.type("cat <<X\n")
        await line.visitor.wait_for_text("cat <<X\n")
        await line.visitor.type("forbidden\n")
        await expect(notice).to_contain_text("Refused: forbidden")
        line.cut()
        await expect(line.veil).to_be_visible()
        await line.visitor.type("touch RAN\n")
        await expect(notice).to_contain_text("10 keys were not sent")
        await expect(notice.get_by_role("button")).to_be_disabled()
        line.heal()
        await expect(line.veil).to_have_count(0)
        await notice.get_by_role("button", name="Leave the command").click()
        await expect(notice).to_have_count(0)
        await line.run("touch after")
        assert line.files() == ["after"]


async def test_command_of_the_card_view_is_kept_in_its_field_while_the_daemon_is_silent(
    runtime_dir: RuntimeDir, browser: Browser, tmp_path: Path
) -> None:
    async with _line(runtime_dir, browser, tmp_path / "work", "swallowed") as line:
        await line.visitor.take_lock()
        await line.run("true")
        await line.page.get_by_role("button", name="Type commands here").click()
        field = line.page.get_by_role("textbox", name="Command", exact=True)
        line.cut()
        await field.fill("touch now")
        await field.press("Enter")  # it arrives after its time limit
        await expect(line.veil).to_be_visible()
        await field.fill("touch stale")
        await field.press("Enter")
        await line.visitor.expect_lock("Nothing was typed")
        await expect(field).to_have_value("touch stale")
        line.heal()
        await expect(line.veil).to_have_count(0)
        session = line.page.url.rpartition("/")[2]
        await line.visitor.call("ptyctl_session_exec", session_id=session, task_id="web", cmd="touch end")
        assert line.files() == ["end"]


@_EACH_WAY
async def test_list_that_hears_nothing_reports_it_and_continues(
    runtime_dir: RuntimeDir, browser: Browser, tmp_path: Path, how: str
) -> None:
    async with _line(runtime_dir, browser, tmp_path / "work", how, "/") as line:
        await expect(line.page.locator("tbody tr")).to_have_count(1)
        line.cut()
        await expect(line.page.get_by_text("The connection to the daemon is lost")).to_be_visible()
        line.heal()
        await expect(line.page.locator(".offline")).to_have_count(0)
        await expect(line.page.locator("tbody tr")).to_have_count(1)


@_EACH_WAY
async def test_take_over_while_the_daemon_hangs_does_not_happen_later(
    runtime_dir: RuntimeDir, browser: Browser, tmp_path: Path, how: str
) -> None:
    async with _line(runtime_dir, browser, tmp_path / "work", how) as line:
        target = {"session_id": line.page.url.rpartition("/")[2], "task_id": "other"}
        await line.visitor.call("ptyctl_session", action="lock", lock_ttl_ms=600_000, **target)
        await line.visitor.expect_lock("(other) has the lock")
        await line.page.get_by_role("button", name="Take over").click()
        await line.page.get_by_role("textbox", name="Reason").fill("urgent")
        line.cut()
        await line.page.keyboard.press("Enter")
        await expect(line.veil).to_be_visible()
        line.heal()
        await expect(line.page.locator(".toast.bad")).to_be_visible()
        await expect(line.veil).to_have_count(0)
        assert (await line.visitor.call("ptyctl_session", action="status", **target))["lock_holder"] == "other"


@_EACH_WAY
async def test_answer_to_a_request_while_the_daemon_hangs_does_not_happen_later(
    runtime_dir: RuntimeDir, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("PTYCTL_APPROVALS", '{"allow_self": true}')
    async with _line(runtime_dir, browser, tmp_path / "work", how) as line:
        target = {"session_id": line.page.url.rpartition("/")[2], "task_id": "web"}
        await line.visitor.call("ptyctl_session_exec", cmd="mkfs.ext4() { touch ran; }", **target)
        asked = await line.visitor.call("ptyctl_session_exec", cmd=ASKED, timeout_ms=0, **target)
        request = asked["approval"]["approval_id"]
        await navigate(line.page, f"/approvals?id={request}")
        button = line.page.get_by_role("button", name="Approve")
        await expect(button).to_be_enabled()
        line.cut()
        await button.click()
        await expect(line.page.locator(".offline")).to_be_visible()
        line.heal()
        await expect(line.page.locator(".toast.bad")).to_be_visible()
        await expect(line.page.locator(".offline")).to_have_count(0)
        answered = await line.visitor.call("approvals", action="get", approval_id=request)
        assert (answered["approval"]["state"], line.files()) == ("pending", [])

"""The pictures in docs/web.md. `make test ARGS='tests/web/browser/test_screenshots.py --screenshots'` takes them again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Page

from fixtures.browser.console_page import Theme
from ptyctl.simulator import SimulatedSwitch

from .desk import Desk

_DOCS = Path(__file__).parents[3] / "docs"
_FOLDER = _DOCS / "images"
_MAX_BYTES = 150_000


def test_pictures_of_the_documentation_are_small_and_all_used() -> None:
    named = set(re.findall(r"images/(web-[\w-]+\.png)", (_DOCS / "web.md").read_text()))
    sizes = {path.name: path.stat().st_size for path in _FOLDER.glob("web-*.png")}
    assert set(sizes) == named
    assert {name: size for name, size in sizes.items() if size > _MAX_BYTES} == {}


async def test_screenshots(request: pytest.FixtureRequest, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.config.getoption("--screenshots"):
        pytest.skip("takes pictures only with --screenshots")
    monkeypatch.setenv("PS1", "$ ")
    async with SimulatedSwitch(password="secret", enable_secret="secret") as switch:
        console = await desk.open_session(
            protocol="telnet",
            host=switch.host,
            port=switch.telnet_port,
            session_type="console",
            device_id="core-1",
            platform="cisco_ios",
            username="admin",
            auth={"method": "password", "password": "secret", "enable_secret": "secret"},
            pty={"cols": 96, "rows": 28},
            acquire_lock=True,
            lock_ttl_ms=600_000,
        )
        await desk.exec(console, "show version")
        await desk.exec(console, "show clok")
        await desk.exec(console, "show clock")
        build = await desk.open_shell(pty={"cols": 96, "rows": 28})
        await desk.exec(build, "PS1='build$ '; clear")
        await desk.exec(build, "seq -f 'cc -c src/module_%g.c' 12; echo 'src/module_12.c:40: error: missing semicolon'; false")
        question = await desk.open_shell(pty={"cols": 96, "rows": 28})
        await desk.exec(question, "PS1='backup$ '; clear")
        await desk.exec(question, 'read -p "Delete 3 old backups? [y/n] " answer')
        (await desk.ask(console, "reload")).cancel()

        await _take(await _open(desk, "/", "light"), "sessions", "asks a question", height=330)
        await _take(await _open(desk, "/?view=wall", "dark"), "wall", "Delete 3 old backups", height=420)
        await _take(await _open(desk, "/approvals", "light"), "approval", "guarded:", height=720)
        await _take(await _open(desk, f"/s/{console}", "dark", height=660), "session", "show clok", height=660)


async def _open(desk: Desk, path: str, theme: Theme, height: int = 720) -> Page:
    return await desk.open(path, theme=theme, width=1200, height=height)


async def _take(page: Page, name: str, text: str, height: int) -> None:
    await page.get_by_text(text).first.wait_for()
    await page.wait_for_load_state("networkidle")
    _FOLDER.mkdir(exist_ok=True)
    await page.screenshot(path=_FOLDER / f"web-{name}.png", clip={"x": 0, "y": 0, "width": 1200, "height": height})

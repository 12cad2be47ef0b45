"""Rows web-page, web-list, web-key, web-frame and web-output: the page of the web console in Chromium."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from playwright.async_api import Page

from fixtures.browser.chromium import find_chromium, running_chromium
from ptyctl.api.handle import SessionHandle
from tests.web.browser.desk import Desk, running_desk
from tests.web.browser.visitor import visit

from .exec_shells import BASH
from .flood import received_all
from .measurement import OURS, Candidate, Plan, Result, TimedCall, Unavailable, in_milliseconds, measure
from .table import Aim, Row
from .web import WATCH, watch_echo

EMPTY, IDLE, NO_PAGE = "empty page", "no output", "no page"
_SESSIONS = 200
_FRAMES_MS = 1000
_OUTPUT_BYTES = 200_000_000
#: Prints after Enter, so that its start is not measured.
_OUTPUT = ("sh", "-c", f"read go; yes 0123456789012345678901234567890 | head -c {_OUTPUT_BYTES}; echo the last line")
#: Sets `shownAt` (ms since the start of the navigation) after the first frame with this number of sessions.
_OBSERVE = """addEventListener("DOMContentLoaded", () => {
    const observer = new MutationObserver(() => {
        if (document.querySelectorAll("tbody tr").length < SESSIONS) return;
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(() => { window.shownAt = performance.now(); }));
    });
    observer.observe(document, { subtree: true, childList: true });
})"""
#: Sets `echo`, which becomes the time from the next key to the frame that shows the moved cursor (ms).
_EXPECT_ECHO = """async () => {
    const { terminalOf } = await import("/static/terminal.js");
    const terminal = terminalOf(document.querySelector(".term-box"));
    const column = terminal.buffer.active.cursorX;
    let begin = 0;
    addEventListener("keydown", () => { begin = performance.now(); }, { capture: true, once: true });
    window.echo = new Promise((done) => {
        const watch = terminal.onRender(() => {
            if (!begin || terminal.buffer.active.cursorX === column) return;
            watch.dispose();
            done(performance.now() - begin);
        });
    });
}"""
#: The mean time between two frames (ms).
_FRAME = """duration => new Promise((done) => {
    const begin = performance.now();
    let frames = 0;
    const count = () => {
        const passed = performance.now() - begin;
        if (passed < duration) requestAnimationFrame(count, frames++);
        else done(passed / Math.max(frames, 1));
    };
    requestAnimationFrame(count);
})"""
#: Sets `ended`, a promise of the frame that shows the last line of the output.
_EXPECT_END = """async () => {
    const { terminalOf } = await import("/static/terminal.js");
    const terminal = terminalOf(document.querySelector(".term-box"));
    window.ended = new Promise((done) => {
        const watch = terminal.onRender(() => {
            const { active } = terminal.buffer;
            const line = active.getLine(active.baseY + active.cursorY - 1)?.translateToString(true);
            if (line !== "the last line") return;
            watch.dispose();
            done(true);
        });
    });
}"""


@asynccontextmanager
async def _desk() -> AsyncIterator[Desk]:
    try:
        chromium = find_chromium()
    except pytest.skip.Exception as skipped:
        raise Unavailable(str(skipped)) from None
    with TemporaryDirectory(prefix="web-") as folder:
        async with running_chromium(chromium) as browser, running_desk(Path(folder), browser) as desk:
            yield desk


async def _page_run(sessions: int, plan: Plan) -> Result:
    """Return the time until a list of sessions is shown, and until an empty page of the same server is."""
    async with _desk() as desk:
        for _ in range(sessions):
            await desk.open_session(protocol="local", command=("cat",))
        tab = await desk.open_tab("/")
        tab.expect_problem("favicon")  # of the empty page
        page = tab.page
        await page.add_init_script(_OBSERVE.replace("SESSIONS", str(sessions)))
        rounds: dict[str, list[float]] = {OURS: [], EMPTY: []}
        for _ in range(plan.rounds):
            await page.goto(desk.url)
            shown = await page.wait_for_function("() => window.shownAt")
            rounds[OURS].append(float(await shown.json_value()))
            await page.goto(f"{desk.url}/static/style.css")
            rounds[EMPTY].append(
                float(await page.evaluate("performance.timing.loadEventEnd - performance.timing.navigationStart"))
            )
        return Result(rounds)


@asynccontextmanager
async def _page_echo() -> AsyncIterator[TimedCall]:
    async with _desk() as desk:
        session = await desk.open_session(protocol="local", command=BASH)
        visitor = await visit(desk, session)
        await visitor.take_lock()
        await visitor.page.locator(".term-box .xterm-helper-textarea").focus()

        async def once() -> float:
            await visitor.page.evaluate(_EXPECT_ECHO)
            await visitor.page.keyboard.press("x")
            return float(await visitor.page.evaluate("window.echo")) / 1000

        yield once


async def _key_run(plan: Plan) -> Result:
    """Return the extra time from a key to its echo on the page, compared with a watch as in `attach`."""
    result = in_milliseconds(await measure([Candidate(OURS, _page_echo), Candidate(WATCH, watch_echo)], plan))
    if OURS not in result.rounds:
        return result
    watch = result.rounds[WATCH]
    return Result({OURS: [ours - other for ours, other in zip(result.rounds[OURS], watch, strict=True)], WATCH: watch})


async def _frame_run(plan: Plan) -> Result:
    """Return the time between two frames of the page during a flood, and without output."""

    async def frame(page: Page) -> float:
        return float(await page.evaluate(_FRAME, _FRAMES_MS))

    async with _desk() as desk:
        session = await desk.open_session(
            protocol="local", command=("sh", "-c", "read go; exec yes 0123456789012345678901234567890")
        )
        visitor = await visit(desk, session)
        await visitor.take_lock()
        idle = [await frame(visitor.page) for _ in range(plan.rounds)]
        await visitor.type("\n")
        await visitor.wait_for_text("0123456789")
        return Result({OURS: [await frame(visitor.page) for _ in range(plan.rounds)], IDLE: idle})


async def _output_run(plan: Plan) -> Result:
    """Return the time until the page shows the last line of a large output, and until it is received without a page."""
    rounds: dict[str, list[float]] = {OURS: [], NO_PAGE: []}
    async with _desk() as desk:
        for number in range(2 * min(plan.rounds, 3)):
            session = SessionHandle(desk.controller, await desk.open_session(protocol="local", command=_OUTPUT))
            page = None if number % 2 else (await visit(desk, session.session_id)).page
            if page is not None:
                await page.evaluate(_EXPECT_END)
            start = time.perf_counter()
            await session.write("\n")
            await received_all(session)
            if page is not None:
                await page.evaluate("window.ended")
                await page.close()
            rounds[NO_PAGE if number % 2 else OURS].append(time.perf_counter() - start)
            await session.close(force=True)
    return in_milliseconds(Result(rounds))


ROWS = (
    Row("web-page", "web console until its list is shown", "ms", EMPTY, (Aim("≤", 300),), partial(_page_run, 1)),
    Row("web-list", f"the same with {_SESSIONS} sessions", "ms", EMPTY, (Aim("≤", 300),), partial(_page_run, _SESSIONS)),
    Row("web-key", "what an echo takes longer on the page's screen", "ms", WATCH, (Aim("≤", 15),), _key_run),
    Row("web-frame", "time between two frames of the page in a flood", "ms", IDLE, (Aim("≤", 34),), _frame_run),
    Row("web-output", f"{_OUTPUT_BYTES // 10**6} MB of output until the page shows its end", "ms", NO_PAGE, (), _output_run),
)

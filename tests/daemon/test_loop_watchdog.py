"""The watchdog counts iterations of the event loop that take too long, and names the call."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from ptyctl.controller.local import LocalController
from ptyctl.daemon import control
from ptyctl.daemon.loop_watchdog import LoopWatchdog
from ptyctl.daemon.runtime_dir import RuntimeDir
from tests.controller.local_daemon import served

PATIENCE_S = 30


def run(watchdog: LoopWatchdog, *callbacks: object) -> None:
    async def main() -> None:
        for callback in callbacks:
            asyncio.get_running_loop().call_soon(callback)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=watchdog.new_loop) as runner:
        runner.run(main())


def test_blocked_loop_is_counted_and_its_call_logged(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = LoopWatchdog(stall_s=0.01)

    def expensive_search() -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not watchdog.sampled and time.monotonic() < deadline:
            pass

    with caplog.at_level(logging.WARNING):
        run(watchdog, expensive_search)
    assert watchdog.stalls >= 1
    assert watchdog.longest_s > 0.01
    calls = [getattr(record, "call", "") for record in caplog.records if record.message == "the event loop was blocked"]
    assert any("expensive_search" in call for call in calls)


def test_short_iterations_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = LoopWatchdog(stall_s=PATIENCE_S)
    run(watchdog, lambda: None)
    assert (watchdog.stalls, caplog.records) == (0, [])


async def test_stalls_are_in_the_status_of_the_daemon(runtime_dir: RuntimeDir) -> None:
    watchdog = LoopWatchdog()
    watchdog.stalls, watchdog.longest_s = 3, 0.25
    async with LocalController() as controller, served(controller, runtime_dir.path, watchdog):
        status = await asyncio.to_thread(control.find_daemon, runtime_dir)
    assert status is not None
    assert (status.loop_stalls, status.longest_stall_ms) == (3, 250)

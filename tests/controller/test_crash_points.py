"""A server is killed at each step of a session's life: the next server has the results of all calls that returned.

The files are copied before each step that changes them, as a killed server leaves them, and recovered from each copy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from tests.controller.acknowledged_calls import Acknowledged, ConsoleClient, FarEnd, Record, devices, recovering_client
from tests.session.file_faults import STEPS, CrashPoint, CrashPoints, intercept

Phase = Callable[[ConsoleClient], Awaitable[None]]


async def open_console(client: ConsoleClient) -> None:
    await client.open()


async def change_lock(client: ConsoleClient) -> None:
    await client.lock("one")
    await client.heartbeat()
    await client.lock("two", force=True)
    await client.unlock()
    await client.lock("one")


async def run_commands(client: ConsoleClient) -> None:
    await client.run(2)
    await client.read()
    await client.run(300)
    await client.read()


async def receive_flood(client: ConsoleClient) -> None:
    for _ in range(3):
        client.far_end.print_log(4_000)
        await client.read()


async def resize(client: ConsoleClient) -> None:
    await client.resize(90, 30)


async def reconnect(client: ConsoleClient) -> None:
    client.far_end.hang_up()
    await client.open()


async def close(client: ConsoleClient) -> None:
    await client.close()


PHASES: list[Phase] = [open_console, change_lock, run_commands, receive_flood, resize, reconnect, close]


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
async def test_server_killed_at_any_step_loses_nothing_acknowledged(tmp_path: Path, phase: Phase) -> None:
    state, far_end = tmp_path / "state", FarEnd()
    async with LocalController(Settings(state_dir=state), devices({"sw1": far_end})) as controller:
        client = ConsoleClient(controller, Acknowledged("sw1"), far_end)
        for earlier in PHASES[: PHASES.index(phase)]:
            await earlier(client)
        state.mkdir(mode=0o700, exist_ok=True)
        crashes = CrashPoints(state, tmp_path, client.record)
        with intercept(crashes.perform, state, STEPS):
            await phase(client)
        crashes.add("end")
    assert len(crashes.points) > 1
    for number, point in enumerate(crashes.points):
        try:
            await check_recovery(point, tmp_path / f"recovery-{number}" if number == len(crashes.points) // 2 else None)
        except AssertionError as wrong:
            raise AssertionError(f"killed at step {number}, {point.name}") from wrong


async def check_recovery(point: CrashPoint[Record], copies: Path | None = None) -> None:
    """Check that a server continues with the files; with `copies`, also if it is killed at any step of the recovery."""
    async with recovering_client(point.folder, point.record) as client:
        if copies is not None:
            copies.mkdir()
            crashes = CrashPoints(point.folder, copies, client.record)
            with intercept(crashes.perform, point.folder, STEPS):
                await client.verify()
                await client.open()
        await client.resume(run=copies is not None)
    for again in crashes.points if copies is not None else ():
        await check_recovery(again)

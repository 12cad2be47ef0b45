"""Setting and showing the pace of a session."""

from __future__ import annotations

import asyncio

import pytest

from ptyctl.api import ErrorCode
from tests.controller.session_calls import Open, config, refused, scripted_program


@pytest.mark.also_remote("replies of pace")
async def test_pace_is_set_shown_and_removed(open_session: Open) -> None:
    handle = await scripted_program(open_session)
    assert (await config(handle, "get")).pace is None
    told = (await config(handle, "pace", line_delay_ms=20)).pace
    assert told is not None
    assert (told.line_delay_ms, told.chars_per_s) == (20, None)
    began = asyncio.get_running_loop().time()
    await handle.write("61\n62\n63\n")
    assert asyncio.get_running_loop().time() - began >= 0.039  # three lines are separated by two delays
    assert (await handle.read(until_regex="abc", timeout_ms=20_000)).matched
    assert (await config(handle, "pace")).pace is None


async def test_pace_change_is_refused_while_another_holds_the_lock(open_session: Open) -> None:
    handle = await scripted_program(open_session, acquire_lock=True, task_id="t")
    with refused(ErrorCode.LOCKED):
        await config(handle, "pace", chars_per_s=10, task_id="u")
    with refused(ErrorCode.INVALID_ARGUMENT, "chars_per_s"):
        await config(handle, "pace", chars_per_s=0, task_id="t")

"""Sessions on a simulated switch with each session quirk: login, configuration, save."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from functools import partial
from typing import Any

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.controller import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.simulator import Quirks, SimulatedSwitch
from ptyctl.simulator.login_dialog import LOGIN_PROMPTS
from ptyctl.simulator.session_quirks import HALF_TYPED
from tests.controller.session_calls import PATIENCE_MS, config, execute, read, refused
from tests.integration.devices.concurrent_runs import run_concurrently
from tests.integration.devices.quirk_times import short_password_silence, slow_first
from tests.integration.devices.switch_inventory import ENABLE, PASSWORD

pytestmark = pytest.mark.waits

#: Values of the quirks that are not boolean.
VALUES: dict[str, Any] = {"renamed_every": 1, "syslog_after_prompt": 1, "syslog_every": 1}
#: Login questions of other families; with platform auto a session answers the questions of all.
OTHER_FAMILIES = ("change_password", "new_password", "licence")
#: Covered by other tests.
COVERED_ELSEWHERE = (
    *("console_server", "login_prompts", "pager", "confirms_save"),
    *("echo_wraps", "echo_truncates", "echo_breaks", "echo_doubles", "echo_repaints"),
    *("look_alikes", "time_before_output", "syslog_every", "drop_line_after"),
    *("nul_padding", "output_gaps", "slow_output"),
)


@asynccontextmanager
async def switch_with(quirks: Quirks, controller: Controller, **asked: Any) -> AsyncIterator[SessionHandle]:
    """Open a session on a simulated switch and log in."""
    auth = {"password": PASSWORD, "enable_secret": ENABLE}
    async with SimulatedSwitch(password=PASSWORD, enable_secret=ENABLE, quirks=quirks) as switch:
        where = {"protocol": "telnet", "host": switch.host, "port": switch.telnet_port, "platform": "cisco_ios"}
        handle = await SessionHandle.open(controller, **{**where, "username": "admin", "auth": auth, **asked})
        async with handle:
            yield handle


async def mode_of(handle: SessionHandle) -> str | None:
    return (await config(handle, "get")).mode


async def configure_with_error(handle: SessionHandle) -> None:
    """Execute three configuration lines with an error in the second, and return to privileged mode."""
    lines = ["interface Vlan1", "descripton x", "description y"]
    reply = await execute(handle, lines=lines, mode="config", timeout_ms=PATIENCE_MS)
    assert (reply.failed_line, reply.mode) == ("descripton x", "config")
    (failed,) = reply.failed_lines or []
    assert (failed.number, failed.said) == (2, ["% Invalid input detected at '^' marker."])
    assert "description y" not in reply.stdout
    assert (await config(handle, "mode", mode="privileged")).mode == "privileged"


async def use_session(controller: Controller, quirk: str) -> None:
    """Log in, configure with an error, return to privileged mode, and save."""
    asked = {"platform": "auto"} if quirk in OTHER_FAMILIES else {}
    async with switch_with(Quirks(**{quirk: VALUES.get(quirk, True)}), controller, **asked) as handle:
        assert await mode_of(handle) == "privileged"
        await configure_with_error(handle)
        assert "[OK]" in ((await config(handle, "save")).stdout or "")
        shown = (await read(handle, cursor="0", timeout_ms=0, max_bytes=100_000)).chunk or ""
        assert f"{HALF_TYPED}\n" not in shown, "the unfinished line of the previous user was executed"
        assert PASSWORD not in shown


async def log_in(controller: Controller, words: str) -> None:
    async with switch_with(Quirks(login_prompts=words), controller) as handle:
        assert await mode_of(handle) == "privileged"


QUIRKS = slow_first(quirk.name for quirk in fields(Quirks) if quirk.name not in COVERED_ELSEWHERE)


@pytest.mark.usefixtures(short_password_silence.__name__)
async def test_session_with_each_quirk_logs_in_configures_and_saves() -> None:
    await run_concurrently({quirk: partial(use_session, quirk=quirk) for quirk in QUIRKS})


async def test_session_logs_in_at_prompts_of_each_wording() -> None:
    await run_concurrently({words: partial(log_in, words=words) for words in LOGIN_PROMPTS})


async def test_question_of_save_is_left_to_caller(controller: Controller) -> None:
    async with switch_with(Quirks(confirms_save=True), controller) as handle:
        with refused(ErrorCode.POLICY_DENIED, "Continue? [y/n]:", "which only you can answer (it is in mode privileged now)"):
            await config(handle, "save")
        yes = [{"match": r"\[y/n\]: ?$", "send": "y\n"}]
        reply = await execute(handle, cmd="write memory", responses=yes, timeout_ms=PATIENCE_MS)
        assert (reply.done_reason, reply.mode) == ("prompt", "privileged")


async def test_open_without_credentials_leaves_login_to_caller(controller: Controller) -> None:
    async with switch_with(Quirks(), controller, username=None, auth=None) as handle:
        assert (await handle.read(until_regex="Username: $", timeout_ms=PATIENCE_MS)).matched
        assert await mode_of(handle) is None

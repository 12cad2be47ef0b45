"""exec on a simulated switch with each quirk: `stdout` and the block's text equal the output of the command."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from ptyctl.api import ErrorCode
from ptyctl.api.blocks import BlocksRead
from ptyctl.api.controller import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.settings import Settings
from ptyctl.simulator import Quirks, SimulatedSwitch
from ptyctl.simulator.pager import PAGER_STYLES
from tests.controller.session_calls import PATIENCE_MS, execute, read, refused, write
from tests.integration.devices.concurrent_runs import run_concurrently
from tests.integration.devices.quirk_times import short_password_silence, slow_first
from tests.simulator.console_user import ACCOUNT, LOGIN, ConsoleUser, command_output

pytestmark = pytest.mark.waits

#: Values of the quirks that are not boolean.
VALUES: dict[str, Any] = {
    "console_server": "cs:cs-pw",
    "login_prompts": "unix",
    "output_gaps": 0.2,
    "pager": "frr",
    "renamed_every": 2,
    "slow_output": 40_000.0,
    "syslog_after_prompt": 2,
    "syslog_every": 1,
}
#: Login questions of other families; with platform auto a session answers the questions of all.
OTHER_FAMILIES = ("change_password", "new_password", "licence")
#: Covered by a separate test.
DROPS_CONNECTION = "drop_line_after"
QUIRKS = slow_first(quirk.name for quirk in fields(Quirks) if quirk.name != DROPS_CONNECTION)

#: A command with several pages, one with an echo wider than the terminal, an invalid one, and one without output.
PAGED = "show interfaces status"
WIDE = f"show interfaces status | include {'x' * 60}|Gi1/0/7"
COMMANDS = (PAGED, WIDE, "show zzz", "clear logging", PAGED)
#: Answers to the login and to `enable`.
LOGIN_ANSWERS = ("admin", ACCOUNT.password, "enable", "en")
LOG_LINE = re.compile(r"(?m)^\*Mar .*: %[A-Z]+-\d-[A-Z]+: .*\n")
CARET = re.compile(r"(?m)^ +\^$")
TIME_LINE = re.compile(r"\A\d\d:\d\d:\d\d\.\d{3} UTC .*\n")


def expected_output(quirks: Quirks, command: str) -> str:
    """Return what the command prints on a switch with these quirks, from a console without connection, pager and echo."""
    plain = ConsoleUser(keys=f"{LOGIN}terminal length 0\r")
    text = command_output(plain.type(f"{command}\r"))
    text = f"{text}\n" if text else ""
    quirky = ConsoleUser(Quirks(look_alikes=quirks.look_alikes, pager=quirks.pager), LOGIN)
    return CARET.sub("^", quirky.console.command_output(text))


def remove_noise(quirks: Quirks, text: str) -> str:
    """Return `text` without syslog lines, time lines, and the indentation of the caret below an invalid word."""
    text = CARET.sub("^", text)
    if quirks.syslog_every:
        text, count = LOG_LINE.subn("", text)
        assert count == bool(text)
    return TIME_LINE.sub("", text) if quirks.time_before_output else text


@pytest.fixture
def tall(tmp_path: Path) -> Settings:
    """Settings with platform `tall`: IOS with an optional line above the prompt."""
    folder = tmp_path / "platforms"
    folder.mkdir()
    ios = (resources.files("ptyctl.platforms") / "cisco_ios.toml").read_text()
    above = "above = { pattern = '^(?:\\{master:\\d\\}|\\[edit\\])$', required = false }"
    mode = re.compile(r"(?m)^\[modes\.(?:user|privileged|config)\]$")
    (folder / "tall.toml").write_text(mode.sub(lambda found: f"{found[0]}\n{above}", ios))
    return Settings(platforms_dir=folder)


@asynccontextmanager
async def logged_in(controller: Controller, quirks: Quirks, *answers: str, **more: Any) -> AsyncIterator[SessionHandle]:
    """Open a session on the switch, in privileged mode and with 80 x 24 characters.

    Args:
        answers: Answers to the login, if the test logs in instead of the session.
    """
    async with SimulatedSwitch("sw1", ACCOUNT.username, password=ACCOUNT.password, enable_secret="en", quirks=quirks) as switch:
        where = {"protocol": "telnet", "host": switch.host, "port": switch.telnet_port, "pty": {"cols": 80, "rows": 24}}
        who = {} if answers else {"username": "admin", "auth": {"password": ACCOUNT.password, "enable_secret": "en"}}
        async with await SessionHandle.open(controller, **where, **who, **{"platform": "cisco_ios", **more}) as handle:
            await log_in(handle, answers)
            for command in ("terminal width 80", "terminal length 24"):
                assert (await execute(handle, cmd=command, timeout_ms=PATIENCE_MS)).done_reason == "prompt"
            yield handle


async def log_in(handle: SessionHandle, answers: tuple[str, ...]) -> None:
    cursor = "0"
    for typed in answers:
        assert (await read(handle, cursor=cursor, until_regex="(?:Username|Password): $|> ?$", timeout_ms=PATIENCE_MS)).matched
        cursor = (await write(handle, data=f"{typed}\n")).next_cursor or ""
    if answers:
        assert (await read(handle, cursor=cursor, until_regex="# ?$", timeout_ms=PATIENCE_MS)).matched


async def block_text(handle: SessionHandle, block_id: str) -> str:
    request = BlocksRead.of({"session_id": handle.session_id, "block_id": block_id})
    return str((await handle.controller.pty(request)).payload()["data"])


async def assert_exact_output(handle: SessionHandle, quirks: Quirks, commands: tuple[str, ...] = COMMANDS) -> None:
    for command in commands:
        reply = await execute(handle, cmd=command, timeout_ms=PATIENCE_MS)
        assert (reply.done_reason, reply.waiting_for_input) == ("prompt", None)
        assert remove_noise(quirks, reply.stdout) == expected_output(quirks, command), command
        assert await block_text(handle, reply.block_id) == reply.stdout
        paged = command == PAGED
        assert (reply.pages or 0) >= paged


async def exec_with_quirk(controller: Controller, quirk: str) -> None:
    quirks = Quirks(**{quirk: VALUES.get(quirk, True)})
    more = {"platform": "auto"} if quirk in OTHER_FAMILIES else {"platform": "tall"} if quirk == "two_line_prompt" else {}
    answers = (*quirks.console_server.split(":"), *LOGIN_ANSWERS) if quirks.console_server else ()
    async with logged_in(controller, quirks, *answers, **more) as handle:
        await assert_exact_output(handle, quirks)


async def exec_with_pager(controller: Controller, family: str) -> None:
    quirks, prompt = Quirks(pager=family), {"prompt_regex": r"^sw1(?:\(.*\))?[>#] ?$"}
    async with logged_in(controller, quirks, *LOGIN_ANSWERS, platform=family, expect=prompt) as handle:
        await assert_exact_output(handle, quirks, (PAGED, PAGED))


@pytest.mark.usefixtures(short_password_silence.__name__)
async def test_exec_with_each_quirk_returns_exact_output(tall: Settings) -> None:
    await run_concurrently({quirk: partial(exec_with_quirk, quirk=quirk) for quirk in QUIRKS}, tall)


async def test_exec_with_pager_of_each_family_returns_exact_output() -> None:
    """Pages are requested with the key of the platform, and the pager prompt is removed however it is erased."""
    await run_concurrently({family: partial(exec_with_pager, family=family) for family in PAGER_STYLES})


async def test_exec_on_dropped_line_fails_with_partial_output(controller: Controller) -> None:
    quirks = Quirks(drop_line_after=6)
    async with logged_in(controller, quirks) as handle:
        with refused(ErrorCode.REMOTE_CLOSED, "during the command") as caught:
            for _ in range(20):
                await execute(handle, cmd=PAGED, timeout_ms=PATIENCE_MS)
        assert expected_output(quirks, PAGED).startswith(str(caught.value.details["stdout"]))

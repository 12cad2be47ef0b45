"""Typed input on real programs and devices: the policy judges what they get, in the place where they get it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fixtures.servers.frr import Zebra
from fixtures.servers.programs import require_program
from ptyctl import LocalController, SessionHandle
from ptyctl.api.controller import Controller
from ptyctl.api.errors import ErrorCode, PtyctlError
from ptyctl.controller.settings import Settings
from ptyctl.simulator import Quirks
from tests.controller.session_calls import BASH, PATIENCE_MS, write
from tests.integration.devices.test_sessions_with_quirks import switch_with

POLICY = """
extends = ["off"]
unparsed = "warn"
unreadable = "ask"

[[rules]]
id = "made"
when = { platform = "*" }
command = ["touch", "FORBIDDEN"]
decision = "deny"
reason = "the file must not exist"

[[rules]]
id = "secret"
when = { where = "program" }
regex = "^:?secret"
decision = "deny"
reason = "no program gets it"

[[rules]]
id = "clock"
command = ["show", "clock"]
decision = "deny"
reason = "the time is a secret"

[[rules]]
id = "version"
command = ["show", "version"]
decision = "deny"
reason = "the version is a secret"
"""
#: The command that starts a program, what it shows then, and keys that a rule denies.
PROGRAMS = {
    "vim command": (("vim", "-u", "NONE", "-N"), r"~", "\x1b:secret"),
    "vim shell command": (("vim", "-u", "NONE", "-N"), r"~", "\x1b:!touch FORBIDDEN"),
    "vim inserted text": (("vim", "-u", "NONE", "-N"), r"~", "isecret\x1b:secret"),
    "less shell command": (("less", "/etc/passwd"), r":", "!touch FORBIDDEN"),
    "python": (("python3", "-q"), r">>> ", "secret = 1"),
    "cat": (("cat",), r"", "secret"),
    "line for the shell below": (("sleep", "60"), r"", "touch FORBIDDEN"),
}


@asynccontextmanager
async def controller_of(folder: Path) -> AsyncIterator[LocalController]:
    (folder / "policy.toml").write_text(POLICY)
    async with LocalController(Settings(state_dir=folder / "state", policy=str(folder / "policy.toml"))) as controller:
        yield controller


@pytest.fixture
async def policed(tmp_path: Path) -> AsyncIterator[Controller]:
    async with controller_of(tmp_path) as controller:
        yield controller


async def refusal_of(session: SessionHandle, **fields: str) -> PtyctlError:
    with pytest.raises(PtyctlError) as caught:
        await write(session, **fields)
    assert caught.value.code is ErrorCode.POLICY_DENIED, caught.value
    return caught.value


@pytest.mark.parametrize("name", PROGRAMS)
async def test_line_typed_into_a_program_is_judged_there(policed: Controller, tmp_path: Path, name: str) -> None:
    (program, *arguments), shown, keys = PROGRAMS[name]
    command = " ".join((require_program(program, program), *arguments))
    async with await SessionHandle.open(policed, protocol="local", command=BASH, cwd=str(tmp_path)) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        await write(shell, data="secret=1\n")  # at the prompt, the rule for programs does not apply
        await write(shell, data=f"{command}\n", until_regex=shown or command, timeout_ms=PATIENCE_MS)
        await shell.screen(until_idle_ms=200, timeout_ms=PATIENCE_MS)
        await write(shell, data=keys)
        error = await refusal_of(shell, data="\n")
        assert error.details["rules"] in (["made"], ["secret"])
        assert not (tmp_path / "FORBIDDEN").exists()


@pytest.mark.parametrize("text", ["!!", "!to", "fc -s"])
async def test_line_of_the_history_that_is_not_known_is_not_run(policed: Controller, tmp_path: Path, text: str) -> None:
    async with await SessionHandle.open(policed, protocol="local", command=BASH, cwd=str(tmp_path)) as shell:
        await shell.exec("true", timeout_ms=PATIENCE_MS)
        with pytest.raises(PtyctlError) as caught:
            await write(shell, data=f"{text}\n")
        assert caught.value.code in (ErrorCode.POLICY_DENIED, ErrorCode.APPROVAL_PENDING)


@pytest.mark.parametrize("keys", ["sh\tclo\t", "show clocc\x08", "show clock\x01"])
async def test_edited_line_of_zebra_is_judged(policed: Controller, zebra: Zebra, keys: str) -> None:
    auth = {"password": zebra.password, "enable_secret": zebra.enable_password}
    where = {"protocol": "telnet", "host": zebra.host, "port": zebra.port, "platform": "frr", "auth": auth}
    async with await SessionHandle.open(policed, **where) as device:
        await device.exec("show history", timeout_ms=PATIENCE_MS)
        await write(device, data=keys)
        await refusal_of(device, data="\n")
        assert (await device.exec("show history", timeout_ms=PATIENCE_MS)).done_reason == "prompt"


@pytest.mark.parametrize("quirks", [Quirks(), Quirks(echo_repaints=True), Quirks(syslog_every=1)])
async def test_edited_line_of_the_simulator_is_judged(policed: Controller, quirks: Quirks) -> None:
    async with switch_with(quirks, policed) as device:
        await device.exec("show users", timeout_ms=PATIENCE_MS)
        await write(device, data="show clocc\x7f")
        await refusal_of(device, data="k\n")
        assert (await device.exec("show users", timeout_ms=PATIENCE_MS)).done_reason == "prompt"

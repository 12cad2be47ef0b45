"""`platform: auto` on SSH, shells, consoles and without credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.inprocess_ssh import HOST
from ptyctl.api import ErrorCode
from ptyctl.api.controller import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.controller.local import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.platforms import Platforms
from ptyctl.simulator import Quirks, SimulatedSwitch
from tests.controller.session_calls import BASH, PATIENCE_MS, config, copy_state, refused, session
from tests.integration.devices.switch_inventory import ENABLE, PASSWORD
from tests.integration.devices.test_sessions_with_quirks import mode_of, switch_with

AUTO = {"platform": "auto"}


async def test_auto_over_ssh_detects_platform(controller: Controller) -> None:
    async with SimulatedSwitch(password=PASSWORD, enable_secret=ENABLE) as switch:
        where = {"protocol": "ssh", "host": HOST, "port": switch.ssh_port, "username": "admin"}
        options = {"host_key_fingerprint": switch.host_key_fingerprint, "use_openssh_config": False}
        auth = {"password": PASSWORD, "enable_secret": ENABLE}
        handle = await SessionHandle.open(controller, **where, **AUTO, ssh_options=options, auth=auth)
        assert handle.opened.platform == "cisco_ios"
        assert await mode_of(handle) == "privileged"
        assert (await handle.exec("show version")).pages is None


async def test_auto_uses_patterns_of_family_after_callers(controller: Controller) -> None:
    async with switch_with(Quirks(), controller, **AUTO, expect={"pager_regexes": ["^more\\?$"]}) as handle:
        expect = (await config(handle, "get")).expect
        assert expect is not None
        assert expect.pager_regexes == ("^more\\?$",)
        assert expect.prompt_regex == Platforms().get("cisco_ios").expect().prompt_regex


async def test_auto_without_credentials_falls_back_to_generic(controller: Controller) -> None:
    async with switch_with(Quirks(), controller, **AUTO, username=None, auth=None) as handle:
        assert handle.opened.platform == "generic"
        assert "generic is used" in (handle.opened.message or "")
        assert (await handle.read(cursor="0", until_regex="Username: $", timeout_ms=PATIENCE_MS)).matched


async def test_auto_on_local_shell_detects_linux(controller: Controller) -> None:
    handle = await SessionHandle.open(controller, protocol="local", command=BASH, **AUTO)
    assert handle.opened.platform == "linux"
    assert (await handle.exec("exit_code() { return 7; }; exit_code")).exit_code == 7


async def test_auto_on_reopened_console_keeps_platform(tmp_path: Path) -> None:
    """Includes a second server, which reads the state of the first from disk."""
    console = {"session_type": "console", "device_id": "sw1", "acquire_lock": True, "task_id": "one"}
    settings = Settings(state_dir=tmp_path / "state")
    async with SimulatedSwitch(password=PASSWORD, enable_secret=ENABLE) as switch:
        asked: dict[str, Any] = {
            "protocol": "telnet", "host": switch.host, "port": switch.telnet_port, "username": "admin",
            "auth": {"password": PASSWORD, "enable_secret": ENABLE}, **console, **AUTO,
        }  # fmt: skip
        async with LocalController(settings) as first:
            one = await SessionHandle.open(first, **asked)
            again = await SessionHandle.open(first, **asked)
            assert (again.session_id, again.opened.platform) == (one.session_id, "cisco_ios")
            first.flush()
            copy_state(settings.state_dir, tmp_path / "left")
        async with LocalController(Settings(state_dir=tmp_path / "left")) as second:
            later = await SessionHandle.open(second, **asked)
            assert (later.session_id, later.opened.platform) == (one.session_id, "cisco_ios")
            assert (await config(later, "mode", mode="user", task_id="one")).mode == "user"


@pytest.mark.parametrize("name", ["automatic", "AUTO"])
async def test_auto_spelled_differently_is_unknown(controller: Controller, name: str) -> None:
    with refused(ErrorCode.UNSUPPORTED, "is not known"):
        await session(controller, "open", protocol="local", platform=name)

"""`platform: auto`, where it is not a transcript's login that shows the family."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from fixtures.servers.inprocess_ssh import HOST
from ptyctl.api import ErrorCode
from ptyctl.api.controller import Controller
from ptyctl.api.handle import SessionHandle
from ptyctl.controller import LocalController
from ptyctl.controller.settings import Settings
from ptyctl.platforms import Platforms
from ptyctl.simulator import Quirks, SimulatedSwitch
from tests.controller.session_calls import BASH, PATIENCE_MS, config, refused, session
from tests.integration.devices.switch_inventory import ENABLE, PASSWORD
from tests.integration.devices.test_sessions_with_quirks import mode_of, switch_with

AUTO = {"platform": "auto"}


async def test_over_ssh(controller: Controller) -> None:
    async with SimulatedSwitch(password=PASSWORD, enable_secret=ENABLE) as switch:
        where = {"protocol": "ssh", "host": HOST, "port": switch.ssh_port, "username": "admin"}
        options = {"host_key_fingerprint": switch.host_key_fingerprint, "use_openssh_config": False}
        auth = {"password": PASSWORD, "enable_secret": ENABLE}
        handle = await SessionHandle.open(controller, **where, **AUTO, ssh_options=options, auth=auth)
        assert handle.opened.platform == "cisco_ios"
        assert await mode_of(handle) == "privileged"
        assert (await handle.exec("show version")).pages is None


async def test_the_patterns_are_the_familys_and_the_callers_own_in_front(controller: Controller) -> None:
    async with switch_with(Quirks(), controller, **AUTO, expect={"pager_regexes": ["^more\\?$"]}) as handle:
        expect = (await config(handle, "get")).expect
        assert expect is not None
        assert expect.pager_regexes == ("^more\\?$",)
        assert expect.prompt_regex == Platforms().get("cisco_ios").expect().prompt_regex


async def test_without_credentials_the_banner_alone_may_tell(controller: Controller) -> None:
    async with switch_with(Quirks(), controller, **AUTO, username=None, auth=None) as handle:
        assert handle.opened.platform == "generic"
        assert "generic is used" in (handle.opened.message or "")
        assert (await handle.read(cursor="0", until_regex="Username: $", timeout_ms=PATIENCE_MS)).matched


async def test_a_shell_is_known_as_one_and_has_exit_codes(controller: Controller) -> None:
    handle = await SessionHandle.open(controller, protocol="local", command=BASH, **AUTO)
    assert handle.opened.platform == "linux"
    assert (await handle.exec("exit_code() { return 7; }; exit_code")).exit_code == 7


async def test_a_console_that_is_opened_again_keeps_its_family(tmp_path: Path) -> None:
    """Also in another server, which reads what the first has left."""
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
            shutil.copytree(settings.state_dir, tmp_path / "left")  # as a killed server leaves it
        async with LocalController(Settings(state_dir=tmp_path / "left")) as second:
            later = await SessionHandle.open(second, **asked)
            assert (later.session_id, later.opened.platform) == (one.session_id, "cisco_ios")
            assert (await config(later, "mode", mode="user", task_id="one")).mode == "user"


@pytest.mark.parametrize("name", ["automatic", "AUTO"])
async def test_it_has_one_name(controller: Controller, name: str) -> None:
    with refused(ErrorCode.UNSUPPORTED, "is not known"):
        await session(controller, "open", protocol="local", platform=name)

"""Login dialogues on the simulated switch with each of its quirks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.platforms import Platform, Platforms
from ptyctl.session.device.login_dialog import LoginAction, LoginDialog, LoginLayer
from ptyctl.simulator import Quirks
from ptyctl.simulator.device import DeviceAccount, SimulatedDevice
from ptyctl.simulator.login_dialog import LOGIN_PROMPTS
from ptyctl.simulator.quirky_console import QuirkyConsole
from ptyctl.simulator.session_quirks import HALF_TYPED
from ptyctl.simulator.terminal import SendOutput, TerminalAction
from tests.platforms.shown_lines import ShownLines

PLATFORMS = Platforms()
GENERIC = PLATFORMS.get("generic")
#: Quirks that belong to the login of another family.
OTHERS = {"change_password": "huawei_vrp", "new_password": "mikrotik_routeros", "licence": "mikrotik_routeros"}
#: Each quirk of the output with a value that turns it on; quirks of Telnet or timing are not included.
SWITCHED_ON: dict[str, Any] = {
    **{quirk.name: True for quirk in fields(Quirks) if quirk.default is False and quirk.name not in ("insists_on_options",)},
    "console_server": "op:server-password",
    "syslog_after_prompt": 1,
    "syslog_every": 1,
    "renamed_every": 1,
}


class Desk:
    """Performs the actions of a login dialogue on the switch's console."""

    def __init__(self, quirks: Quirks, name: str = "con0") -> None:
        self.console = QuirkyConsole(SimulatedDevice("sw1", DeviceAccount("admin", "device-password", "en")), name, quirks)
        self.shown = ShownLines()
        self.text = ""
        self._take(self.console.start())

    def log_in(self, login: LoginDialog, answers: list[dict[str, str]]) -> LoginAction:
        """Log in. `answers`: username and password of each layer."""
        for _ in range(60):
            action = login.heard(self.shown.text())
            if action.kind == "wait":
                action = login.silent(self.shown.text())
            if action.kind in ("done", "failed"):
                return action
            typed = action.text
            if action.kind in ("username", "secret"):
                typed = answers[action.layer][action.secret or "username"]
            self.shown.typed()
            self._take(self.console.feed((typed + ("\r" if action.enter else "")).encode()))
        raise AssertionError("the login does not end")

    def _take(self, actions: list[TerminalAction]) -> None:
        for action in actions:
            if isinstance(action, SendOutput):
                self.shown.add(action.data)
                self.text += action.data.decode()


def platform_for(quirk: str) -> Platform:
    """The platform of IOS, with the login patterns of the family that has the quirk."""
    ios = PLATFORMS.get("cisco_ios")
    if quirk not in OTHERS:
        return ios
    login = PLATFORMS.get(OTHERS[quirk]).login.model_copy(update={"username_suffix": ""})
    return ios.model_copy(update={"login": login})


def log_in(switched_on: dict[str, Any], platform: Platform) -> tuple[Desk, LoginAction]:
    desk = Desk(Quirks(**switched_on))
    device = {"username": "admin", "password": "device-password", "enable": "en"}
    layers, answers = [LoginLayer(platform, True, True)], [device]
    if "console_server" in switched_on:
        layers.insert(0, LoginLayer(GENERIC, True, True))
        answers.insert(0, {"username": "op", "password": "server-password"})
    return desk, desk.log_in(LoginDialog(layers), answers)


@pytest.mark.parametrize("quirk", SWITCHED_ON)
def test_login_with_one_quirk_reaches_prompt(quirk: str) -> None:
    desk, done = log_in({quirk: SWITCHED_ON[quirk]}, platform_for(quirk))
    assert done.kind == "done", done.why
    assert done.mode in ("user", "privileged")
    assert HALF_TYPED + "\r" not in desk.text, "what somebody had half typed was run"


@pytest.mark.parametrize("words", LOGIN_PROMPTS)
def test_login_with_other_prompt_wording_reaches_prompt(words: str) -> None:
    _, done = log_in({"login_prompts": words}, platform_for(""))
    assert (done.kind, done.mode) == ("done", "user"), done.why


#: Quirks that can be combined; the others appear after the login.
TOGETHER = [
    "console_server", "left_over_more", "left_over_line", "left_over_config", "initial_setup", "silent", "press_return",
    "prompt_in_banner", "echoes_password", "bare_cr_after_password", "last_login", "nul_padding", "syslog_after_prompt",
]  # fmt: skip


@given(st.sets(st.sampled_from(TOGETHER), max_size=4))
def test_login_with_several_quirks_reaches_prompt(quirks: set[str]) -> None:
    _, done = log_in({quirk: SWITCHED_ON[quirk] for quirk in quirks}, platform_for(""))
    assert done.kind == "done", done.why
    assert done.mode in ("user", "privileged")

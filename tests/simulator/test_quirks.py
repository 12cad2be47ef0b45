"""Quirks of the simulated switch: definition, and quirks that concern several areas."""

from __future__ import annotations

from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.simulator import Quirks
from ptyctl.simulator import quirks as quirks_module
from ptyctl.simulator.device import DeviceAccount, SimulatedDevice
from ptyctl.simulator.pager import IOS_PAGER
from ptyctl.simulator.quirks import CHOICES
from ptyctl.simulator.quirky_console import QuirkyConsole
from ptyctl.simulator.session_quirks import CONNECT_DIALOGS, LOGIN_DIALOGS
from ptyctl.simulator.terminal import BroadcastLog, DropConnection, SendOutput
from tests.simulator.console_user import LOGIN, ConsoleUser, output_of


def test_each_field_is_implemented_once() -> None:
    """By a dialog of this name, or by code that reads the field."""
    names = [quirk.name for quirk in fields(Quirks)]
    dialogs = [dialog.__name__ for dialog in (*CONNECT_DIALOGS, *LOGIN_DIALOGS)]
    sources = "".join(path.read_text() for path in Path(quirks_module.__file__).parent.glob("*.py"))
    assert sorted(dialogs, key=names.index) == dialogs, "dialogs apply in the order of the fields"
    assert {name for name in names if f"quirks.{name}" not in sources} <= {*dialogs} <= {*names}


def test_quirks_are_off_by_default() -> None:
    assert Quirks().enabled() == {}


def test_each_field_is_used_in_a_test() -> None:
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_quirks*.py"))
    assert [quirk.name for quirk in fields(Quirks) if f"{quirk.name}=" not in texts] == []


def test_negative_value_is_rejected() -> None:
    with pytest.raises(ValueError, match="syslog_every must not be negative"):
        Quirks(syslog_every=-1)


def test_unknown_choice_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"pager is one of cisco_ios, .*, or empty"):
        Quirks(pager="less")


class TestSilent:
    def test_silent_console_shows_login_after_two_enters(self) -> None:
        user = ConsoleUser(Quirks(silent=True))
        assert user.greeting == ""
        assert user.type("hello ?\x03") == ""
        assert user.type("\r\n").endswith("Press RETURN to get started.\r\n\r\n")
        assert user.type("x") == ""
        assert user.type("\r").endswith("Username: ")

    def test_silent_console_keeps_window_size(self) -> None:
        user = ConsoleUser(Quirks(silent=True))
        user.console.resize(100, 10)
        user.type("\r\r" + LOGIN)
        assert user.type("show run\r").count("\n") == 1 + 9

    def test_silent_ssh_session_needs_no_login(self) -> None:
        console = QuirkyConsole(SimulatedDevice("sw1", DeviceAccount("admin", "pw")), quirks=Quirks(silent=True), user="admin")
        assert output_of(console.start() + console.feed(b"\r\r")).endswith("\r\nsw1>")


class TestLeftOverMore:
    def test_left_over_more_shows_pager_prompt(self) -> None:
        user = ConsoleUser(Quirks(left_over_more=True))
        assert user.greeting == IOS_PAGER.prompt
        assert user.type("\r").startswith(IOS_PAGER.eraser)
        assert user.type("q") == IOS_PAGER.eraser + "sw1#"

    def test_left_over_more_with_silent_shows_prompt_after_key(self) -> None:
        user = ConsoleUser(Quirks(left_over_more=True, silent=True))
        assert user.greeting == ""
        assert user.type("\r").endswith(IOS_PAGER.prompt)

    def test_left_over_more_next_user_has_to_log_in(self) -> None:
        user = ConsoleUser(Quirks(left_over_more=True), name="con0")
        user.type("qexit\r")
        assert user.type("\r").endswith("Username: ")


class TestPromptInBanner:
    def test_prompt_in_banner_shows_lines_like_prompts(self) -> None:
        user = ConsoleUser(Quirks(prompt_in_banner=True))
        assert "\r\nsw1#\r\n" in user.greeting
        assert "\r\nsw1>\r\n" in user.greeting
        assert user.greeting.endswith("\r\nUser Access Verification\r\n\r\nUsername: ")


class TestSyslogEvery:
    def test_syslog_every_inserts_line_into_each_nth_output(self) -> None:
        user = ConsoleUser(Quirks(syslog_every=2), keys="admin\rpw\r")
        plain = ConsoleUser(Quirks(), keys="admin\rpw\r")
        keys = "show ip interface brief\r"
        for console in (user, plain):
            console.type("term len 0\r")
        lines = user.type(keys).split("\r\n")
        assert user.type(keys) == plain.type(keys)
        syslog = [line for line in lines if line.startswith("*Mar  1 ")]
        assert len(syslog) == 1
        lines.remove(syslog[0])
        assert "\r\n".join(lines) == plain.type(keys)

    def test_syslog_every_is_logged_and_broadcast(self) -> None:
        user = ConsoleUser(Quirks(syslog_every=1), keys="admin\rpw\r")
        user.type("term len 0\r")
        logged = [action.line for action in user.actions if isinstance(action, BroadcastLog)]
        assert len(logged) == 1
        assert logged[0] in user.console.device.log


class TestSyslogAfterPrompt:
    def test_syslog_after_prompt_follows_prompt(self) -> None:
        user = ConsoleUser(Quirks(syslog_after_prompt=1), LOGIN)
        before, after = user.type("show clock\r").split("sw1#")
        assert before.startswith("show clock\r\n*00:00")
        assert after.startswith("\r\n*Mar  1 ")
        assert after.endswith("\r\n")

    def test_syslog_after_prompt_enter_shows_prompt_again(self) -> None:
        user = ConsoleUser(Quirks(syslog_after_prompt=1), LOGIN)
        user.type("show clock\r")
        assert user.type("\r") == "\r\nsw1#"


class TestDropLineAfter:
    def test_drop_line_after_sends_half_of_output(self) -> None:
        user = ConsoleUser(Quirks(drop_line_after=2), keys="admin\rpw\r")
        user.type("term len 0\r")
        whole = ConsoleUser(Quirks(), keys="admin\rpw\rterm len 0\r").type("show version\r")
        user.type("show version\r")
        drop = user.actions.index(DropConnection())
        seen = output_of(user.actions[:drop])
        assert whole.startswith(seen)
        assert len("show version\r\n") < len(seen) < len(whole) - len("sw1>")


class TestEchoWraps:
    #: A real device with 66 columns after the prompt printed this.
    TYPED = "show archive config differences flash:/candidate_config.txt system:/running-c"

    def test_echo_wraps_shifts_line_by_ten_columns(self) -> None:
        user = ConsoleUser(Quirks(echo_wraps=True), LOGIN)
        user.console.width = 66 + len("sw1#") + 1
        assert user.type(self.TYPED[:66]) == self.TYPED[:66]
        assert user.type(self.TYPED[66:67]) == "\b" * 66 + "$" + self.TYPED[11:67] + " " * 9 + "\b" * 9
        assert user.type(self.TYPED[67:76]) == self.TYPED[67:76]
        assert user.type(self.TYPED[76]) == "\b" * 65 + self.TYPED[21:77] + " " * 9 + "\b" * 9

    def test_echo_wraps_executes_whole_line(self) -> None:
        user = ConsoleUser(Quirks(echo_wraps=True), LOGIN)
        user.console.width = 40
        assert "sw1#" in user.type("conf t\rint gi1/0/1\rdescription " + "0123456789" * 6 + "\rend\r")
        assert "0123456789" * 6 in user.type("term len 0\rshow run\r")

    def test_echo_wraps_without_width_does_not_shift(self) -> None:
        user = ConsoleUser(Quirks(echo_wraps=True), LOGIN)
        user.type("terminal width 0\r")
        assert user.type("x" * 200) == "x" * 200


class TestNulPadding:
    def test_nul_padding_follows_line_ends_and_pager_prompt(self) -> None:
        padded = ConsoleUser(Quirks(nul_padding=True), keys=LOGIN + "term len 5\r")
        plain = ConsoleUser(Quirks(), keys=LOGIN + "term len 5\r")
        expected = plain.type("show run\r")
        found = padded.type("show run\r")
        assert found.endswith(IOS_PAGER.prompt + "\0")
        assert "\r\n\0\0" in found
        assert found.replace("\0", "") == expected


def values(quirk: Field[Any]) -> st.SearchStrategy[Any]:
    if CHOICES.get(quirk.name):
        return st.sampled_from(["", *CHOICES[quirk.name]])
    if isinstance(quirk.default, str):
        return st.sampled_from(["", "ports:server"])
    return st.booleans() if isinstance(quirk.default, bool) else st.integers(0, 3)


@given(
    st.fixed_dictionaries({quirk.name: values(quirk) for quirk in fields(Quirks)}), st.binary(max_size=200), st.integers(0, 300)
)
def test_any_combination_of_quirks_does_not_depend_on_splits(quirks: dict[str, Any], noise: bytes, cut: int) -> None:
    keys = (
        b"\rports\rserver\rno\r\r\radmin\rpw\rn\r\x03\rn\r\renable\ren\rshow clock\r"
        + noise
        + b"\rconf t\rhostname x\rend\ry\r"
    )
    transcripts = []
    for pieces in ((keys,), (keys[:cut], keys[cut:])):
        console = QuirkyConsole(SimulatedDevice("sw1", DeviceAccount("admin", "pw", "en")), "con0", Quirks(**quirks))
        actions = console.start()
        for piece in pieces:
            actions += console.feed(piece)
        transcripts.append(b"".join(action.data for action in actions if isinstance(action, SendOutput)))
    assert transcripts[0] == transcripts[1]

"""The quirks of the simulated switch, one by one."""

from __future__ import annotations

from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.simulator import Quirks
from ptyctl.simulator.device import DeviceAccount, SimulatedDevice
from ptyctl.simulator.pager import IOS_PAGER
from ptyctl.simulator.quirks import CHOICES
from ptyctl.simulator.terminal import BroadcastLog, DropConnection, SendOutput
from ptyctl.simulator.terminal_lines import HOOKS, create_console
from tests.simulator.console_user import LOGIN, ConsoleUser, output_of

#: Quirks that the console and the Telnet server implement themselves.
WITHOUT_HOOK = {"pager", "pages_once_sized", "counts_each_line_end", "insists_on_options"}


def test_each_field_has_one_hook() -> None:
    assert HOOKS.keys() | WITHOUT_HOOK == {quirk.name for quirk in fields(Quirks)}
    assert not HOOKS.keys() & WITHOUT_HOOK
    assert len(set(HOOKS.values())) == len(HOOKS)


def test_all_quirks_are_off_by_default() -> None:
    assert Quirks().enabled() == {}
    assert ConsoleUser().console.hooks == []


def test_an_enabled_quirk_creates_its_hook() -> None:
    hooks = ConsoleUser(Quirks(prompt_prefix=True, syslog_every=2)).console.hooks
    assert [type(hook) for hook in hooks] == [HOOKS["prompt_prefix"], HOOKS["syslog_every"]]


def test_each_field_is_named_in_a_test() -> None:
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_quirks*.py"))
    assert [quirk.name for quirk in fields(Quirks) if f"{quirk.name}=" not in texts] == []


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="syslog_every must not be negative"):
        Quirks(syslog_every=-1)


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"pager is one of cisco_ios, .*, or empty"):
        Quirks(pager="less")


class TestSilent:
    def test_two_enters_wake_it(self) -> None:
        user = ConsoleUser(Quirks(silent=True))
        assert user.greeting == ""
        assert user.type("hello ?\x03") == ""
        assert user.type("\r\n").endswith("Press RETURN to get started.\r\n\r\n")
        assert user.type("x") == ""
        assert user.type("\r").endswith("Username: ")

    def test_the_window_is_not_forgotten(self) -> None:
        user = ConsoleUser(Quirks(silent=True))
        user.console.resize(100, 10)
        user.type("\r\r" + LOGIN)
        assert user.type("show run\r").count("\n") == 1 + 9

    def test_who_came_by_ssh_does_not_log_in_again(self) -> None:
        console = create_console(SimulatedDevice("sw1", DeviceAccount("admin", "pw")), quirks=Quirks(silent=True), user="admin")
        assert output_of(console.start() + console.feed(b"\r\r")).endswith("\r\nsw1>")


class TestLeftOverMore:
    def test_the_pager_of_somebody_else(self) -> None:
        user = ConsoleUser(Quirks(left_over_more=True))
        assert user.greeting == IOS_PAGER.prompt
        assert user.type("\r").startswith(IOS_PAGER.eraser)
        assert user.type("q") == IOS_PAGER.eraser + "sw1#"

    def test_asleep_it_shows_after_a_key(self) -> None:
        user = ConsoleUser(Quirks(left_over_more=True, silent=True))
        assert user.greeting == ""
        assert user.type("\r").endswith(IOS_PAGER.prompt)

    def test_the_next_user_logs_in(self) -> None:
        user = ConsoleUser(Quirks(left_over_more=True), name="con0")
        user.type("qexit\r")
        assert user.type("\r").endswith("Username: ")


class TestPromptInBanner:
    def test_lines_like_prompts(self) -> None:
        user = ConsoleUser(Quirks(prompt_in_banner=True))
        assert "\r\nsw1#\r\n" in user.greeting
        assert "\r\nsw1>\r\n" in user.greeting
        assert user.greeting.endswith("\r\nUser Access Verification\r\n\r\nUsername: ")


class TestSyslogEvery:
    def test_in_the_middle_of_each_second_output(self) -> None:
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

    def test_the_others_are_told(self) -> None:
        user = ConsoleUser(Quirks(syslog_every=1), keys="admin\rpw\r")
        user.type("term len 0\r")
        logged = [action.line for action in user.actions if isinstance(action, BroadcastLog)]
        assert len(logged) == 1
        assert logged[0] in user.console.device.log


class TestSyslogAfterPrompt:
    def test_the_prompt_is_not_at_the_end(self) -> None:
        user = ConsoleUser(Quirks(syslog_after_prompt=1), LOGIN)
        before, after = user.type("show clock\r").split("sw1#")
        assert before.startswith("show clock\r\n*00:00")
        assert after.startswith("\r\n*Mar  1 ")
        assert after.endswith("\r\n")

    def test_an_enter_brings_it_back(self) -> None:
        user = ConsoleUser(Quirks(syslog_after_prompt=1), LOGIN)
        user.type("show clock\r")
        assert user.type("\r") == "\r\nsw1#"


class TestDropLineAfter:
    def test_half_of_the_output_comes(self) -> None:
        user = ConsoleUser(Quirks(drop_line_after=2), keys="admin\rpw\r")
        user.type("term len 0\r")
        whole = ConsoleUser(Quirks(), keys="admin\rpw\rterm len 0\r").type("show version\r")
        user.type("show version\r")
        drop = user.actions.index(DropConnection())
        seen = output_of(user.actions[:drop])
        assert whole.startswith(seen)
        assert len("show version\r\n") < len(seen) < len(whole) - len("sw1>")


class TestEchoWraps:
    #: The room beside the prompt was 66 columns when a device was seen to paint this.
    TYPED = "show archive config differences flash:/candidate_config.txt system:/running-c"

    def test_the_line_is_shifted_by_ten(self) -> None:
        user = ConsoleUser(Quirks(echo_wraps=True), LOGIN)
        user.console.width = 66 + len("sw1#") + 1
        assert user.type(self.TYPED[:66]) == self.TYPED[:66]
        assert user.type(self.TYPED[66:67]) == "\b" * 66 + "$" + self.TYPED[11:67] + " " * 9 + "\b" * 9
        assert user.type(self.TYPED[67:76]) == self.TYPED[67:76]
        assert user.type(self.TYPED[76]) == "\b" * 65 + self.TYPED[21:77] + " " * 9 + "\b" * 9

    def test_the_whole_line_runs(self) -> None:
        user = ConsoleUser(Quirks(echo_wraps=True), LOGIN)
        user.console.width = 40
        assert "sw1#" in user.type("conf t\rint gi1/0/1\rdescription " + "0123456789" * 6 + "\rend\r")
        assert "0123456789" * 6 in user.type("term len 0\rshow run\r")

    def test_width_0_has_no_edge(self) -> None:
        user = ConsoleUser(Quirks(echo_wraps=True), LOGIN)
        user.type("terminal width 0\r")
        assert user.type("x" * 200) == "x" * 200


class TestNulPadding:
    def test_after_line_ends_and_the_pager(self) -> None:
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
def test_no_mixture_depends_on_the_cut(quirks: dict[str, Any], noise: bytes, cut: int) -> None:
    keys = (
        b"\rports\rserver\rno\r\r\radmin\rpw\rn\r\x03\rn\r\renable\ren\rshow clock\r"
        + noise
        + b"\rconf t\rhostname x\rend\ry\r"
    )
    transcripts = []
    for pieces in ((keys,), (keys[:cut], keys[cut:])):
        console = create_console(SimulatedDevice("sw1", DeviceAccount("admin", "pw", "en")), "con0", Quirks(**quirks))
        actions = console.start()
        for piece in pieces:
            actions += console.feed(piece)
        transcripts.append(b"".join(action.data for action in actions if isinstance(action, SendOutput)))
    assert transcripts[0] == transcripts[1]

"""The quirks of the simulated switch, one by one."""

from __future__ import annotations

from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.simulator import Quirks
from ptyctl.simulator.actions import Drop, Log, Output
from ptyctl.simulator.console import Console
from ptyctl.simulator.device import Account, Device
from ptyctl.simulator.hooks.hook import Hook
from ptyctl.simulator.pager_styles import IOS
from tests.simulator.quirky_user import LOGIN, QuirkyDesk, said


def on(quirk: Field[Any]) -> bool | int | str:
    """A value that turns a quirk on."""
    if quirk.metadata["choices"]:
        return str(quirk.metadata["choices"][-1])
    return "ports:server" if isinstance(quirk.default, str) else 1


def test_each_field_has_a_hook_and_is_off_by_default() -> None:
    assert Quirks().hooks() == []
    for quirk in fields(Quirks):
        hooks = Quirks(**{quirk.name: on(quirk)}).hooks()
        assert [type(hook) for hook in hooks] == [quirk.metadata["hook"]]
        assert issubclass(quirk.metadata["hook"], Hook)


def test_no_two_fields_have_the_same_hook() -> None:
    kinds = [quirk.metadata["hook"] for quirk in fields(Quirks)]
    assert len(set(kinds)) == len(kinds)


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
        desk = QuirkyDesk(Quirks(silent=True), keys="")
        assert desk.greeting == ""
        assert desk.type("hello ?\x03") == ""
        assert desk.type("\r\n").endswith("Press RETURN to get started.\r\n\r\n")
        assert desk.type("x") == ""
        assert desk.type("\r").endswith("Username: ")

    def test_the_window_is_not_forgotten(self) -> None:
        desk = QuirkyDesk(Quirks(silent=True), keys="")
        desk.console.resize(100, 10)
        desk.type("\r\r" + LOGIN)
        assert desk.type("show run\r").count("\n") == 1 + 9

    def test_who_came_by_ssh_does_not_log_in_again(self) -> None:
        console = Console(Device("sw1", Account("admin", "pw")), quirks=Quirks(silent=True), user="admin")
        assert said(console.start() + console.feed(b"\r\r")).endswith("\r\nsw1>")


class TestLeftOverMore:
    def test_the_pager_of_somebody_else(self) -> None:
        desk = QuirkyDesk(Quirks(left_over_more=True), keys="")
        assert desk.greeting == IOS.prompt
        assert desk.type("\r").startswith(IOS.eraser)
        assert desk.type("q") == IOS.eraser + "sw1#"

    def test_asleep_it_shows_after_a_key(self) -> None:
        desk = QuirkyDesk(Quirks(left_over_more=True, silent=True), keys="")
        assert desk.greeting == ""
        assert desk.type("\r").endswith(IOS.prompt)

    def test_the_next_user_logs_in(self) -> None:
        desk = QuirkyDesk(Quirks(left_over_more=True), keys="", name="con0")
        desk.type("qexit\r")
        assert desk.type("\r").endswith("Username: ")


class TestPromptInBanner:
    def test_lines_like_prompts(self) -> None:
        desk = QuirkyDesk(Quirks(prompt_in_banner=True), keys="")
        assert "\r\nsw1#\r\n" in desk.greeting
        assert "\r\nsw1>\r\n" in desk.greeting
        assert desk.greeting.endswith("\r\nUser Access Verification\r\n\r\nUsername: ")


class TestSyslogEvery:
    def test_in_the_middle_of_each_second_output(self) -> None:
        desk = QuirkyDesk(Quirks(syslog_every=2), keys="admin\rpw\r")
        plain = QuirkyDesk(Quirks(), keys="admin\rpw\r")
        keys = "show ip interface brief\r"
        for console in (desk, plain):
            console.type("term len 0\r")
        lines = desk.type(keys).split("\r\n")
        assert desk.type(keys) == plain.type(keys)
        syslog = [line for line in lines if line.startswith("*Mar  1 ")]
        assert len(syslog) == 1
        lines.remove(syslog[0])
        assert "\r\n".join(lines) == plain.type(keys)

    def test_the_others_are_told(self) -> None:
        desk = QuirkyDesk(Quirks(syslog_every=1), keys="admin\rpw\r")
        desk.type("term len 0\r")
        logged = [action.line for action in desk.actions if isinstance(action, Log)]
        assert len(logged) == 1
        assert logged[0] in desk.console.device.log


class TestSyslogAfterPrompt:
    def test_the_prompt_is_not_at_the_end(self) -> None:
        desk = QuirkyDesk(Quirks(syslog_after_prompt=1))
        before, after = desk.type("show clock\r").split("sw1#")
        assert before.startswith("show clock\r\n*00:00")
        assert after.startswith("\r\n*Mar  1 ")
        assert after.endswith("\r\n")

    def test_an_enter_brings_it_back(self) -> None:
        desk = QuirkyDesk(Quirks(syslog_after_prompt=1))
        desk.type("show clock\r")
        assert desk.type("\r") == "\r\nsw1#"


class TestDropLineAfter:
    def test_half_of_the_output_comes(self) -> None:
        desk = QuirkyDesk(Quirks(drop_line_after=2), keys="admin\rpw\r")
        desk.type("term len 0\r")
        whole = QuirkyDesk(Quirks(), keys="admin\rpw\rterm len 0\r").type("show version\r")
        desk.type("show version\r")
        drop = desk.actions.index(Drop())
        seen = said(desk.actions[:drop])
        assert whole.startswith(seen)
        assert len("show version\r\n") < len(seen) < len(whole) - len("sw1>")


class TestEchoWraps:
    #: The room beside the prompt was 66 columns when a device was seen to paint this.
    TYPED = "show archive config differences flash:/candidate_config.txt system:/running-c"

    def test_the_line_is_shifted_by_ten(self) -> None:
        desk = QuirkyDesk(Quirks(echo_wraps=True))
        desk.console.width = 66 + len("sw1#") + 1
        assert desk.type(self.TYPED[:66]) == self.TYPED[:66]
        assert desk.type(self.TYPED[66:67]) == "\b" * 66 + "$" + self.TYPED[11:67] + " " * 9 + "\b" * 9
        assert desk.type(self.TYPED[67:76]) == self.TYPED[67:76]
        assert desk.type(self.TYPED[76]) == "\b" * 65 + self.TYPED[21:77] + " " * 9 + "\b" * 9

    def test_the_whole_line_runs(self) -> None:
        desk = QuirkyDesk(Quirks(echo_wraps=True))
        desk.console.width = 40
        assert "sw1#" in desk.type("conf t\rint gi1/0/1\rdescription " + "0123456789" * 6 + "\rend\r")
        assert "0123456789" * 6 in desk.type("term len 0\rshow run\r")

    def test_width_0_has_no_edge(self) -> None:
        desk = QuirkyDesk(Quirks(echo_wraps=True))
        desk.type("terminal width 0\r")
        assert desk.type("x" * 200) == "x" * 200


class TestNulPadding:
    def test_after_line_ends_and_the_pager(self) -> None:
        padded = QuirkyDesk(Quirks(nul_padding=True), keys=LOGIN + "term len 5\r")
        plain = QuirkyDesk(Quirks(), keys=LOGIN + "term len 5\r")
        expected = plain.type("show run\r")
        found = padded.type("show run\r")
        assert found.endswith(IOS.prompt + "\0")
        assert "\r\n\0\0" in found
        assert found.replace("\0", "") == expected


def values(quirk: Field[Any]) -> st.SearchStrategy[Any]:
    if quirk.metadata["choices"]:
        return st.sampled_from(["", *quirk.metadata["choices"]])
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
        console = Console(Device("sw1", Account("admin", "pw", "en")), "con0", Quirks(**quirks))
        actions = console.start()
        for piece in pieces:
            actions += console.feed(piece)
        transcripts.append(b"".join(action.data for action in actions if isinstance(action, Output)))
    assert transcripts[0] == transcripts[1]

"""The quirks of the practice switch, one by one."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptyctl.cli.practice import Quirks
from ptyctl.cli.practice.actions import Action, Drop, Log, Output
from ptyctl.cli.practice.console import Console
from ptyctl.cli.practice.device import Account, Device
from ptyctl.cli.practice.hooks import Hook
from ptyctl.cli.practice.pager import ERASE, MORE

LOGIN = "admin\rpw\renable\ren\r"


class Desk:
    """A logged-in user of a console with quirks."""

    def __init__(self, quirks: Quirks, keys: str = LOGIN, name: str = "vty0") -> None:
        self.console = Console(Device("sw1", Account("admin", "pw", "en")), name, quirks)
        self.actions: list[Action] = self.console.start()
        self.greeting = said(self.actions)
        self.type(keys)

    def type(self, keys: str) -> str:
        self.actions = self.console.feed(keys.encode())
        return said(self.actions)


def said(actions: list[Action]) -> str:
    return b"".join(action.data for action in actions if isinstance(action, Output)).decode()


def test_each_field_has_a_hook_and_is_off_by_default() -> None:
    assert Quirks().hooks() == []
    for quirk in fields(Quirks):
        hooks = Quirks(**{quirk.name: 1}).hooks()
        assert [type(hook) for hook in hooks] == [quirk.metadata["hook"]]
        assert issubclass(quirk.metadata["hook"], Hook)


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="syslog_every must not be negative"):
        Quirks(syslog_every=-1)


class TestSilent:
    def test_two_enters_wake_it(self) -> None:
        desk = Desk(Quirks(silent=True), keys="")
        assert desk.greeting == ""
        assert desk.type("hello ?\x03") == ""
        assert desk.type("\r\n").endswith("Press RETURN to get started.\r\n\r\n")
        assert desk.type("x") == ""
        assert desk.type("\r").endswith("Username: ")

    def test_the_window_is_not_forgotten(self) -> None:
        desk = Desk(Quirks(silent=True), keys="")
        desk.console.resize(100, 10)
        desk.type("\r\r" + LOGIN)
        assert desk.type("show run\r").count("\n") == 1 + 9

    def test_who_came_by_ssh_does_not_log_in_again(self) -> None:
        console = Console(Device("sw1", Account("admin", "pw")), quirks=Quirks(silent=True), user="admin")
        assert said(console.start() + console.feed(b"\r\r")).endswith("\r\nsw1>")


class TestLeftOverMore:
    def test_the_pager_of_somebody_else(self) -> None:
        desk = Desk(Quirks(left_over_more=True), keys="")
        assert desk.greeting == MORE
        assert desk.type("\r").startswith(ERASE)
        assert desk.type("q") == ERASE + "sw1#"

    def test_asleep_it_shows_after_a_key(self) -> None:
        desk = Desk(Quirks(left_over_more=True, silent=True), keys="")
        assert desk.greeting == ""
        assert desk.type("\r").endswith(MORE)

    def test_the_next_user_logs_in(self) -> None:
        desk = Desk(Quirks(left_over_more=True), keys="", name="con0")
        desk.type("qexit\r")
        assert desk.type("\r").endswith("Username: ")


class TestPromptInBanner:
    def test_lines_like_prompts(self) -> None:
        desk = Desk(Quirks(prompt_in_banner=True), keys="")
        assert "\r\nsw1#\r\n" in desk.greeting
        assert "\r\nsw1>\r\n" in desk.greeting
        assert desk.greeting.endswith("\r\nUser Access Verification\r\n\r\nUsername: ")


class TestSyslogEvery:
    def test_in_the_middle_of_each_second_output(self) -> None:
        desk = Desk(Quirks(syslog_every=2), keys="admin\rpw\r")
        plain = Desk(Quirks(), keys="admin\rpw\r")
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
        desk = Desk(Quirks(syslog_every=1), keys="admin\rpw\r")
        desk.type("term len 0\r")
        logged = [action.line for action in desk.actions if isinstance(action, Log)]
        assert len(logged) == 1
        assert logged[0] in desk.console.device.log


class TestSyslogAfterPrompt:
    def test_the_prompt_is_not_at_the_end(self) -> None:
        desk = Desk(Quirks(syslog_after_prompt=1))
        before, after = desk.type("show clock\r").split("sw1#")
        assert before.startswith("show clock\r\n*00:00")
        assert after.startswith("\r\n*Mar  1 ")
        assert after.endswith("\r\n")

    def test_an_enter_brings_it_back(self) -> None:
        desk = Desk(Quirks(syslog_after_prompt=1))
        desk.type("show clock\r")
        assert desk.type("\r") == "\r\nsw1#"


class TestDropLineAfter:
    def test_half_of_the_output_comes(self) -> None:
        desk = Desk(Quirks(drop_line_after=2), keys="admin\rpw\r")
        desk.type("term len 0\r")
        whole = Desk(Quirks(), keys="admin\rpw\rterm len 0\r").type("show version\r")
        desk.type("show version\r")
        drop = desk.actions.index(Drop())
        seen = said(desk.actions[:drop])
        assert whole.startswith(seen)
        assert len("show version\r\n") < len(seen) < len(whole) - len("sw1>")


class TestEchoWraps:
    #: The room beside the prompt was 66 columns when a device was seen to paint this.
    TYPED = "show archive config differences flash:/candidate_config.txt system:/running-c"

    def test_the_line_is_shifted_by_ten(self) -> None:
        desk = Desk(Quirks(echo_wraps=True))
        desk.console.width = 66 + len("sw1#") + 1
        assert desk.type(self.TYPED[:66]) == self.TYPED[:66]
        assert desk.type(self.TYPED[66:67]) == "\b" * 66 + "$" + self.TYPED[11:67] + " " * 9 + "\b" * 9
        assert desk.type(self.TYPED[67:76]) == self.TYPED[67:76]
        assert desk.type(self.TYPED[76]) == "\b" * 65 + self.TYPED[21:77] + " " * 9 + "\b" * 9

    def test_the_whole_line_runs(self) -> None:
        desk = Desk(Quirks(echo_wraps=True))
        desk.console.width = 40
        assert "sw1#" in desk.type("conf t\rint gi1/0/1\rdescription " + "0123456789" * 6 + "\rend\r")
        assert "0123456789" * 6 in desk.type("term len 0\rshow run\r")

    def test_width_0_has_no_edge(self) -> None:
        desk = Desk(Quirks(echo_wraps=True))
        desk.type("terminal width 0\r")
        assert desk.type("x" * 200) == "x" * 200


class TestNulPadding:
    def test_after_line_ends_and_the_pager(self) -> None:
        padded = Desk(Quirks(nul_padding=True), keys=LOGIN + "term len 5\r")
        plain = Desk(Quirks(), keys=LOGIN + "term len 5\r")
        expected = plain.type("show run\r")
        found = padded.type("show run\r")
        assert found.endswith(MORE + "\0")
        assert "\r\n\0\0" in found
        assert found.replace("\0", "") == expected


@given(
    st.builds(
        Quirks,
        left_over_more=st.booleans(),
        silent=st.booleans(),
        prompt_in_banner=st.booleans(),
        syslog_every=st.integers(0, 3),
        syslog_after_prompt=st.integers(0, 3),
        drop_line_after=st.integers(0, 3),
        echo_wraps=st.booleans(),
        nul_padding=st.booleans(),
    ),
    st.binary(max_size=200),
    st.integers(0, 250),
)
def test_no_mixture_depends_on_the_cut(quirks: Quirks, noise: bytes, cut: int) -> None:
    keys = b"\r\radmin\rpw\renable\ren\rshow clock\r" + noise + b"\rconf t\rx"
    transcripts = []
    for pieces in ((keys,), (keys[:cut], keys[cut:])):
        console = Console(Device("sw1", Account("admin", "pw", "en")), "con0", quirks)
        actions = console.start()
        for piece in pieces:
            actions += console.feed(piece)
        transcripts.append(said_bytes(actions))
    assert transcripts[0] == transcripts[1]


def said_bytes(actions: list[Action]) -> bytes:
    return b"".join(action.data for action in actions if isinstance(action, Output))
